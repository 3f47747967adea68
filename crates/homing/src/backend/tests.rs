//! The table of what each engine does with a request, as `docs/agents.md` shows it.

use std::fmt::Write as _;
use std::path::Path;

use adapters::EngineKind;
use contract::Abilities;
use expect_test::expect_file;

use super::{LLAMA, SIMULATOR};

const HEAD: &str = "| engine | `logprobs` | `response_format`, `structured_outputs`, `guided_*`, `tool_choice: required` | `logit_bias` | fields without an effect |\n|---|---|---|---|---|\n";

/// What becomes of what an engine cannot do with tokens.
#[derive(Clone, Copy)]
enum Otherwise {
    Forwarded,
    Refused,
}

fn row(page: &mut String, engine: &str, can: Abilities, otherwise: Otherwise) {
    let otherwise = match otherwise {
        Otherwise::Forwarded => "forwarded",
        Otherwise::Refused => "400",
    };
    let cell = |able| if able { "yes" } else { otherwise };
    let [logprobs, grammars, bias] = [can.logprobs, can.grammars, can.logit_bias].map(cell);
    writeln!(
        page,
        "| {engine} | {logprobs} | {grammars} | {bias} | {otherwise} |"
    )
    .unwrap();
}

#[test]
fn the_table_of_engines_is_fresh() {
    let mut rows = String::new();
    let own = "`--engine llama`, `--engine cuda`";
    row(&mut rows, own, LLAMA, Otherwise::Refused);
    row(&mut rows, "simulator", SIMULATOR, Otherwise::Refused);
    for kind in EngineKind::ALL {
        let name = format!("`--upstream {kind}=…`");
        row(&mut rows, &name, kind.abilities(), Otherwise::Forwarded);
    }
    for kind in EngineKind::ALL {
        let name = format!("`--upstream {kind}=… --forward never`");
        row(&mut rows, &name, kind.abilities(), Otherwise::Refused);
    }
    for (name, simulated) in [("Dynamo's workers", false), ("Dynamo's mocker", true)] {
        row(
            &mut rows,
            name,
            dynamo::abilities(simulated),
            Otherwise::Refused,
        );
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (before, rest) = text.split_once(HEAD).unwrap();
    let (_, after) = rest.split_once("\n`400`").unwrap();
    expect_file!["../../../../docs/agents.md"]
        .assert_eq(&format!("{before}{HEAD}{rows}\n`400`{after}"));
}
