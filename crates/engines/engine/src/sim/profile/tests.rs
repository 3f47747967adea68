//! The shipped profiles, and the errors for invalid ones.

use super::*;

fn shipped(name: &str) -> Profile {
    Profile::named(name).unwrap()
}

fn text_of(name: &str) -> &'static str {
    SHIPPED
        .iter()
        .find(|(shipped, _)| *shipped == name)
        .unwrap()
        .1
}

#[test]
fn every_shipped_profile_is_valid() {
    for name in Profile::names() {
        let profile = shipped(name);
        assert_eq!(profile.name, name);
        assert_eq!(profile.slots, 64);
        assert!(profile.answers.mean > 0.0);
    }
    assert_eq!(
        Profile::names()[0],
        "h200-llama-70b-fp8",
        "the default comes first"
    );
}

#[test]
fn memory_holds_what_the_specification_says() {
    let tokens = |name| {
        let limits = shipped(name).limits();
        limits.total_blocks * limits.block_size
    };
    // About 66 GB of FP8 KV on one H200.
    assert_eq!(tokens("h200-llama-70b-fp8"), 401_248);
    // 24 GB on each of two H100, shared with the draft's cache; about 53 sequences.
    let two = shipped("2xh100-llama-70b-fp8-draft");
    assert!((two.cache_bytes - 24.0e9).abs() < 1.0);
    assert_eq!(tokens("2xh100-llama-70b-fp8-draft"), 209_248);
    assert!((50..55).contains(&(209_248 / (3_100 + 830))));
    // 45.5 GB on each of four.
    assert!((shipped("4xh100-llama-70b-fp8").cache_bytes - 45.5e9).abs() < 1.0);
    // The EAGLE-3 head takes some: with the target about 71 GiB.
    let eagle = shipped("h200-llama-70b-fp8-eagle3");
    let weights = (eagle.resident_bytes - 5.0e9) / f64::from(1 << 30);
    assert!((weights - 71.0).abs() < 1.0, "{weights} GiB");
}

#[test]
fn a_step_takes_as_long_as_was_measured() {
    // Batch and milliseconds, from the table measured on an H200 with 5,000 tokens of
    // context for each sequence.
    let timing = shipped("h200-llama-70b-fp8").timing;
    for (batch, measured) in [(1, 18.3), (16, 21.5), (32, 24.6), (64, 30.7)] {
        let load = crate::sim::timing::StepLoad {
            rows: batch,
            computed_tokens: batch,
            context_tokens: 5_000 * batch,
            ..Default::default()
        };
        let ms = timing.step(&load).as_secs_f64() * 1e3;
        assert!(
            (ms / measured - 1.0).abs() < 0.015,
            "batch {batch}: {ms} ms"
        );
    }
}

#[test]
fn a_wide_batch_takes_longer_where_the_profile_says_so() {
    let step = |profile: &str, rows: u64| {
        let load = crate::sim::timing::StepLoad {
            rows,
            ..Default::default()
        };
        shipped(profile).timing.step(&load).as_secs_f64() * 1e3
    };
    let rise = |profile: &str, rows: u64| step(profile, rows + 1) - step(profile, rows);
    let published = PUBLISHED_PROFILE;
    assert!((rise(published, 31) - rise(published, 30) - 11.3).abs() < 1e-6);
    assert!((rise(published, 32) - rise(published, 30)).abs() < 1e-6);
    assert!((rise(DEFAULT_PROFILE, 31) - rise(DEFAULT_PROFILE, 30)).abs() < 1e-6);
}

#[test]
fn drafts_are_accepted_as_often_as_the_specification_expects() {
    for (name, tokens, range) in [
        ("2xh100-llama-70b-fp8-draft", 5, 0.55..0.70),
        ("h200-llama-70b-fp8-eagle3", 3, 0.70..0.85),
    ] {
        let profile = shipped(name);
        assert_eq!(profile.limits().draft_tokens, tokens);
        let expected = profile.speculation.expected_acceptance();
        assert!(range.contains(&expected), "{name}: {expected}");
    }
    assert_eq!(shipped("zero-delay").limits().draft_tokens, 0);
}

#[test]
fn a_card_says_what_the_profile_holds() {
    let profile = shipped("2xh100-llama-70b-fp8-draft").with_block_size(64);
    let card = profile.card(WorkerId(3), "worker-3");
    assert_eq!((card.blocks.size, card.total_blocks), (64, 3_269));
    assert_eq!((card.gpu.count, card.max_context_tokens), (2, 16_384));
    assert_eq!(card.speculation, "draft-model");
    assert_eq!(card.engine, "2xh100-llama-70b-fp8-draft");
    assert!(card.simulated && !card.abilities.logprobs);
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = Profile::named("h900").unwrap_err().to_string();
    assert!(
        error.starts_with("no profile `h900`; available: h200-llama-70b-fp8, "),
        "{error}"
    );
}

#[test]
fn bad_profiles_are_refused_with_the_reason() {
    let good = text_of("h200-llama-70b-fp8-eagle3");
    for (from, to, reason) in [
        (
            "\"by definition\"",
            "\" \"",
            "timing.base: the origin is missing",
        ),
        (
            "unit = \"ms\"",
            "unit = \"tokens\"",
            "unit `tokens` is not one of s, ms, us, ns",
        ),
        ("value = 0.90", "value = 1.90", "1.9 is more than the whole"),
        ("value = 18.1", "value = -18.1", "-18.1 is not a quantity"),
        (
            "[0.87, 0.81, 0.77]",
            "[0.87, 1.81]",
            "1.81 is not between 0 and 1",
        ),
        (
            "[0.87, 0.81, 0.77]",
            "[]",
            "drafting needs acceptance probabilities",
        ),
        ("slots = 64", "slots = 0", "at least one sequence"),
        (
            "max_step_tokens = 16384",
            "max_step_tokens = 63",
            "less than slots",
        ),
        ("value = 150.7", "value = 80.7", "does not fit"),
        (
            "value = 7, unit = \"steps\"",
            "value = 7.5, unit = \"steps\"",
            "timing.intake: 7.5 is not a whole number of steps",
        ),
        (
            "unit = \"rows\"",
            "unit = \"steps\"",
            "timing.wide_batch.above: unit `steps` is not one of rows",
        ),
        ("workers = 3", "", "profile `bad` is invalid"),
        ("workers = 3", "wokers = 3", "profile `bad` is invalid"),
    ] {
        let mut bases = [good, text_of("zero-delay"), text_of(PUBLISHED_PROFILE)].into_iter();
        let base = bases.find(|text| text.contains(from)).expect(from);
        let error = Profile::parse("bad", &base.replace(from, to))
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{from} -> {to}: {error}");
    }
}

#[test]
fn a_constant_without_origin_is_not_a_constant() {
    let text = text_of("zero-delay").replace(", origin = \"by definition\"", "");
    let error = Profile::parse("bad", &text).unwrap_err();
    let ProfileError::Parse { source, .. } = error else {
        panic!("{error}")
    };
    assert!(
        source.to_string().contains("missing field `origin`"),
        "{source}"
    );
}

#[test]
fn a_profile_loads_from_a_file_and_is_named_after_it() {
    let shipped_file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/4xh100-llama-70b-fp8.toml");
    assert_eq!(
        Profile::load(&shipped_file).unwrap(),
        shipped("4xh100-llama-70b-fp8")
    );
    let missing = Profile::load(Path::new("no/such/profile.toml")).unwrap_err();
    assert!(matches!(missing, ProfileError::Read { .. }));
}
