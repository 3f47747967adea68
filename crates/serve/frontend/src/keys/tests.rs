//! Files as people write them, right and wrong, and keys that are found.

use super::*;

const TOML: &str = r#"
# who may ask
[[keys]]
name = "batch"
key = "sk-secret-one"
priority = -2
share = 1
max_requests = 10

[[keys]]
name = "chat"
key = "sk-secret-two"
priority = 3
share = 4
isolated = true
"#;

fn found<'a>(keys: &'a ApiKeys, key: &str) -> Option<&'a Arc<Key>> {
    keys.find(Some(format!("Bearer {key}").as_bytes()))
}

#[test]
fn three_ways_to_write_keys() {
    let json = r#"{"keys": [
        {"name": "batch", "key": "sk-secret-one", "priority": -2, "share": 1, "max_requests": 10},
        {"name": "chat", "key": "sk-secret-two", "priority": 3, "share": 4, "isolated": true}]}"#;
    for text in [TOML, json] {
        let keys = ApiKeys::parse(text).unwrap();
        assert_eq!(keys.names().collect::<Vec<_>>(), ["batch", "chat"]);
        let batch = found(&keys, "sk-secret-one").unwrap();
        let rights = (batch.priority, batch.share, batch.max_requests);
        assert_eq!(rights, (Some(-2), 1, Some(10)));
        let chat = found(&keys, "sk-secret-two").unwrap();
        let rights = (chat.priority, chat.share, chat.max_requests);
        assert_eq!(rights, (Some(3), 4, None));
        assert!(batch.cache_salt.is_none() && chat.cache_salt.is_some());
    }
    let keys = ApiKeys::parse("# people\n sk-one \n\nsk-two\n").unwrap();
    assert_eq!(keys.names().collect::<Vec<_>>(), ["key-1", "key-2"]);
    let one = found(&keys, "sk-one").unwrap();
    assert_eq!((one.priority, one.share), (None, 1));
}

#[test]
fn one_of_several_keys_is_enough_and_none_is_not() {
    let ring = KeyRing::new(ApiKeys::parse("# people\n sk-one \n\nsk-two\n").unwrap());
    for (sent, allowed) in [
        (Some("Bearer sk-one"), true),
        (Some("Bearer sk-two"), true),
        (Some("Bearer sk-three"), false),
        (Some("Bearer sk-on"), false),
        (Some("Bearer "), false),
        (Some("Bearer # people"), false),
        (Some("sk-one"), false),
        (None, false),
    ] {
        assert_eq!(ring.allow(sent.map(str::as_bytes)), allowed, "{sent:?}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn what_is_wrong_is_said_without_what_is_secret() {
    let key = |fields: &str| format!("[[keys]]\nname = \"a\"\nkey = \"sk-secret\"\n{fields}\n");
    let twice = format!("{0}{0}", key(""));
    let same = key("") + "[[keys]]\nname = \"b\"\nkey = \"sk-secret\"\n";
    for (name, text, expected) in [
        ("nothing", "# nobody\n".to_owned(), "it has no keys"),
        (
            "no list",
            "{}".to_owned(),
            "the top level must be a list `keys` and nothing else",
        ),
        (
            "open quote",
            "[[keys]]\nkey = \"sk-secret\n".to_owned(),
            "it is not valid TOML, near line 2",
        ),
        (
            "bare word",
            "[[keys]]\nname = 'a'\nkey = sk-secret\n".to_owned(),
            "it is not valid TOML, near line 3",
        ),
        (
            "cut off",
            "{\"keys\": [{\"key\": \"sk-secret\"".to_owned(),
            "it is not valid JSON, near line 1",
        ),
        (
            "no name",
            "{\"keys\": [{\"key\": \"sk-secret\"}]}".to_owned(),
            "key 1: `name` must be 1 to 64 letters, digits, `-`, `_` or `.`",
        ),
        (
            "a name with spaces",
            "{\"keys\": [{\"name\": \"sk secret\"}]}".to_owned(),
            "key 1: `name` must be 1 to 64 letters, digits, `-`, `_` or `.`",
        ),
        (
            "a number for a key",
            "{\"keys\": [{\"name\": \"a\", \"key\": 5}]}".to_owned(),
            "a: `key` must be text without spaces",
        ),
        (
            "a great share",
            key("share = 1001"),
            "a: `share` must be a whole number from 1 to 1000",
        ),
        (
            "no share",
            key("share = 0"),
            "a: `share` must be a whole number from 1 to 1000",
        ),
        (
            "a secret for a share",
            key("share = \"sk-secret\""),
            "a: `share` must be a whole number from 1 to 1000",
        ),
        (
            "a high priority",
            key("priority = 9"),
            "a: `priority` must be a whole number from -8 to 8",
        ),
        (
            "no requests",
            key("max_requests = 0"),
            "a: `max_requests` must be a whole number from 1 to 4294967295",
        ),
        (
            "isolated, maybe",
            key("isolated = \"yes\""),
            "a: `isolated` must be true or false",
        ),
        (
            "an empty salt",
            key("cache_salt = \"\""),
            "a: `cache_salt` must be text",
        ),
        (
            "a slipped line",
            key("sk-secret = 1"),
            "a: it has a field other than name, key, priority, share, max_requests, isolated and cache_salt",
        ),
        ("one name twice", twice, "a: another key has the same name"),
        ("one key twice", same, "b: another key is the same"),
    ] {
        let error = ApiKeys::parse(&text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{name}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{name}");
    }
}

#[test]
fn nothing_secret_is_shown() {
    let keys = ApiKeys::parse(TOML).unwrap();
    let key = Arc::clone(found(&keys, "sk-secret-two").unwrap());
    let ring = KeyRing::new(keys);
    let shown = format!("{ring:?} {key:?} {:?}", ring.keys());
    assert!(!shown.contains("secret"), "{shown}");
    assert!(shown.contains("chat"));
}

#[test]
fn a_key_has_so_many_requests_inside_and_a_new_file_does_not_forget_them() {
    let ring = KeyRing::new(ApiKeys::parse(TOML).unwrap());
    let find = |key: &str| ring.find(Some(format!("Bearer {key}").as_bytes()), 100);
    let (batch, limit) = find("sk-secret-one").unwrap();
    assert_eq!(limit, 10);
    // Half of all, where the file does not say.
    assert_eq!(find("sk-secret-two").map(|(_, limit)| limit), Some(50));
    let mut inside: Vec<KeyPermit> = (0..10).map(|_| batch.enter(limit).unwrap()).collect();
    assert_eq!(batch.enter(limit).unwrap_err(), 10);
    ring.replace(ApiKeys::parse(&TOML.replace("sk-secret-one", "sk-secret-new")).unwrap());
    assert!(find("sk-secret-one").is_none());
    let (renewed, limit) = find("sk-secret-new").unwrap();
    assert_eq!(renewed.enter(limit).unwrap_err(), 10);
    inside.pop();
    assert!(renewed.enter(limit).is_ok());
    // Alone, a key may have all.
    ring.replace(ApiKeys::parse("sk-alone").unwrap());
    assert_eq!(find("sk-alone").map(|(_, limit)| limit), Some(100));
}

#[test]
fn isolated_keys_have_blocks_of_their_own() {
    let keys = ApiKeys::parse(
        r#"{"keys": [
            {"name": "plain", "key": "a"},
            {"name": "apart", "key": "b", "isolated": true},
            {"name": "also-apart", "key": "c", "isolated": true},
            {"name": "shared", "key": "d", "cache_salt": "team"},
            {"name": "shared-too", "key": "e", "cache_salt": "team"}]}"#,
    )
    .unwrap();
    let seed = |key: &str, salt: &str| found(&keys, key).unwrap().seed(HashSeed::new("", salt));
    assert_eq!(seed("a", ""), HashSeed::BASE);
    let different = [
        seed("a", ""),
        seed("a", "x"),
        seed("b", ""),
        seed("b", "x"),
        seed("c", ""),
        seed("d", ""),
        // Knowing the salt and sending it does not grant access.
        seed("a", "team"),
        seed("a", "b"),
    ];
    for (index, left) in different.iter().enumerate() {
        assert!(!different[index + 1..].contains(left), "{index}");
    }
    assert_eq!(seed("d", "y"), seed("e", "y"));
}
