//! Templates as models ship them.

use std::time::{Duration, UNIX_EPOCH};

use expect_test::{Expect, expect};
use openai::Role;

use super::*;

/// 26 July 2024.
fn clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_721_952_000)
}

fn message(role: Role, content: &str) -> Message {
    Message::new(role, content)
}

fn conversation() -> Vec<Message> {
    vec![
        message(Role::System, "Be brief."),
        message(Role::User, "  Hi \"<you>\" & 'me'\n"),
        message(Role::Assistant, "Hello."),
        message(Role::User, "Bye"),
    ]
}

fn render(source: &str) -> Result<String, PrepareError> {
    ChatTemplate::new(source, "<bos>", "<eos>", clock)
        .unwrap()
        .render(&conversation())
}

#[track_caller]
fn check(source: &str, expected: &Expect) {
    expected.assert_eq(&render(source).unwrap());
}

#[test]
fn the_embedded_template_is_llama_3s_format() {
    let mut messages = conversation();
    messages[0].role = Role::Developer;
    let template = ChatTemplate::new(EMBEDDED, "<|begin_of_text|>", "<|eot_id|>", clock).unwrap();
    expect![[r#"
        <|begin_of_text|><|start_header_id|>system<|end_header_id|>

        Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>

        Hi "<you>" & 'me'<|eot_id|><|start_header_id|>assistant<|end_header_id|>

        Hello.<|eot_id|><|start_header_id|>user<|end_header_id|>

        Bye<|eot_id|><|start_header_id|>assistant<|end_header_id|>

    "#]]
    .assert_eq(&template.render(&messages).unwrap());
}

/// The constructs of Llama 3's, Qwen's, Mistral's and Gemma's templates.
#[test]
fn what_templates_use_works_as_in_python() {
    check(
        "{{ bos_token }}|{{ eos_token }}|{{ add_generation_prompt }}|{{ tools is none }}",
        &expect!["<bos>|<eos>|True|True"],
    );
    check(
        "{% set content = messages[1]['content'] | trim %}\n{{ content.upper().split(' ')[0] }}",
        &expect!["HI"],
    );
    check("{{ messages[1].content.strip()[:2] }}", &expect!["Hi"]);
    check(
        "{{ messages[::2] | length }} {{ messages[-1]['role'] }}",
        &expect!["2 user"],
    );
    check(
        "{{ 'name' in messages[0] }} {{ messages[0].get('x', 'y') }}",
        &expect!["False y"],
    );
    check(
        "{{ date_string }} / {{ strftime_now('%d %B %Y') }}",
        &expect!["26 Jul 2024 / 26 July 2024"],
    );
    check(
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}{{ ns.n }}",
        &expect!["2"],
    );
    check(
        "{% for m in messages %}{% if loop.last and not loop.first %}{{ loop.index0 }}{% endif %}{% endfor %}",
        &expect!["3"],
    );
    check(
        "{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(messages[0].role) }}",
        &expect!["[system]"],
    );
    check(
        "{% if custom_tools is defined %}a{% else %}b{% endif %}",
        &expect!["b"],
    );
}

#[test]
fn blocks_are_trimmed_as_hugging_face_does() {
    let source = "{% for m in messages %}\n    {% if m.role == 'user' %}\n  {{ m.role }}\n    \
                  {% endif %}\n{% endfor %}\n";
    assert_eq!(render(source).unwrap(), "  user\n  user\n");
}

#[test]
fn json_is_written_as_python_writes_it() {
    check(
        "{{ messages[1] | tojson }}",
        &expect![[r#"{"role": "user", "content": "  Hi \"<you>\" & 'me'\n"}"#]],
    );
    check(
        "{{ {'a': [1, 'ü']} | tojson(indent=4) }}",
        &expect![[r#"
            {
                "a": [
                    1,
                    "ü"
                ]
            }"#]],
    );
}

#[test]
fn generation_marks_print_nothing() {
    check("a{% generation %}b{%- endgeneration %}c", &expect!["abc"]);
    check(
        "a\n{%- generation -%}\nb\n{% endgeneration -%}\nc",
        &expect![[r#"
        ab
        c"#]],
    );
}

#[test]
fn a_template_may_refuse() {
    let error = render("{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(
        error,
        PrepareError::Template {
            message: "roles must alternate".to_owned()
        }
    );
    assert_eq!(error.param(), Some("messages"));
    let error = render("{{ messages[0].nothing.more }}").unwrap_err();
    expect![[r#"the chat template refused the messages: undefined value"#]]
        .assert_eq(&error.to_string());
}

#[test]
fn a_template_that_does_not_compile_is_refused() {
    let error = ChatTemplate::new("{% for %}", "", "", clock).unwrap_err();
    expect!["syntax error: unexpected end of block, expected in"].assert_eq(&error.to_string());
}

#[test]
fn names_are_passed_on() {
    let template = ChatTemplate::new("{{ messages[0].name }}", "", "", clock).unwrap();
    let mut named = message(Role::User, "x");
    named.name = Some("Ada".to_owned());
    assert_eq!(template.render(&[named]).unwrap(), "Ada");
}
