//! The `until` argument as models send it, into a condition. What is wrong is said in words that name the right form.

use super::{COMMAND_BYTES_MAX, COMMAND_WORDS_MAX, Condition, Expect, PATTERN_CHARS_MAX, TARGET_BYTES_MAX};
use crate::{reject::Reject, text::shown};
use serde_json::{Map, Value};

/// Each kind, and what may be said besides it.
const KINDS: [(&str, &[&str]); 5] = [
    ("http", &["status", "body_matches"]),
    ("tcp", &[]),
    ("file", &["exists", "changed", "contains"]),
    ("process", &[]),
    ("command", &[]),
];
const FORMS: &str = "{\"http\": URL, \"status\"?: 200, \"body_matches\"?: REGEX}, {\"tcp\": \"host:port\"}, \
     {\"file\": \"/absolute/path\", \"exists\"|\"changed\": true, or \"contains\": TEXT}, {\"process\": PID} or \
     {\"command\": [PROGRAM, ARGUMENT, …]}";

type Fields = Map<String, Value>;

/// `None`: nothing is asked for. Models fill optional fields with nothing in many ways.
pub fn parse(value: &Value) -> Result<Option<Condition>, Reject> {
    let fields = match value {
        Value::Null => return Ok(None),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        // Some send the object as a text.
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => fields,
            _ => return Err(invalid(format!("must be an object: {FORMS}"))),
        },
        Value::Object(fields) => fields.clone(),
        _ => return Err(invalid(format!("must be an object: {FORMS}"))),
    };
    let fields: Fields = fields.into_iter().filter(|(_, value)| !is_nothing(value)).collect();
    if fields.is_empty() {
        return Ok(None);
    }
    let kinds: Vec<_> = KINDS.iter().filter(|(kind, _)| fields.contains_key(*kind)).collect();
    let (kind, more) = match kinds.as_slice() {
        [one] => **one,
        [] => return Err(invalid(format!("does not say what to wait for; it is one of {FORMS}"))),
        [first, second, ..] => {
            let why = format!("names both `{}` and `{}`; one timer waits for one condition", first.0, second.0);
            return Err(invalid(why));
        }
    };
    if let Some(unknown) = fields.keys().find(|field| *field != kind && !more.contains(&field.as_str())) {
        let with = if more.is_empty() { "nothing besides".to_owned() } else { more.join(", ") };
        return Err(invalid(format!("of kind `{kind}` takes {with}, not `{}`", shown(unknown))));
    }
    match kind {
        "http" => http(&fields),
        "tcp" => tcp(&text(&fields, "tcp")?),
        "file" => file(&fields),
        "process" => process(&fields),
        _ => command(&fields),
    }
    .map(Some)
}

fn http(fields: &Fields) -> Result<Condition, Reject> {
    let url = text(fields, "http")?;
    let status = match fields.get("status") {
        None => None,
        Some(value) => match number(value) {
            Some(status @ 100..=599) => Some(status as u16),
            _ => return Err(invalid("`status` must be a number from 100 to 599".into())),
        },
    };
    let body_matches = fields.get("body_matches").map(|_| pattern(fields, "body_matches")).transpose()?;
    Ok(Condition::Http { url, status, body_matches })
}

fn tcp(address: &str) -> Result<Condition, Reject> {
    let wrong = || invalid(format!("`tcp`: '{}' is not host:port, such as localhost:5432", shown(address)));
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    let odd = |c: char| c.is_whitespace() || matches!(c, '/' | '@' | '[' | ']' | '?' | '#');
    if host.is_empty() || host.contains(odd) || (host.contains(':') && bare.is_none()) {
        return Err(wrong());
    }
    match port.parse::<u16>() {
        Ok(port @ 1..) => Ok(Condition::Tcp { host: host.to_owned(), port }),
        _ => Err(wrong()),
    }
}

fn file(fields: &Fields) -> Result<Condition, Reject> {
    let path = text(fields, "file")?;
    if !path.starts_with('/') {
        let why = format!("`file`: '{}' is relative, and to what is not known here; send the whole path", shown(&path));
        return Err(invalid(why));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(invalid(format!("`file`: '{}' goes back by '..'; send the path without it", shown(&path))));
    }
    let given = ["exists", "changed", "contains"].into_iter().filter(|field| fields.contains_key(*field)).count();
    if given > 1 {
        return Err(invalid("of kind `file` takes one of exists, changed, contains".into()));
    }
    let flag = |field: &str| match fields.get(field) {
        None => Ok(None),
        Some(Value::Bool(is)) => Ok(Some(*is)),
        Some(_) => Err(invalid(format!("`{field}` must be true or false"))),
    };
    let expect = match (flag("exists")?, flag("changed")?) {
        (_, Some(true)) => Expect::Changed { from: None },
        (_, Some(false)) => return Err(invalid("`changed` can only be true".into())),
        (Some(false), None) => Expect::Gone,
        (_, None) if fields.contains_key("contains") => Expect::Contains { text: pattern(fields, "contains")? },
        (_, None) => Expect::Exists,
    };
    Ok(Condition::File { path, expect })
}

fn process(fields: &Fields) -> Result<Condition, Reject> {
    match fields.get("process").and_then(number) {
        Some(pid @ 1..=0x7fff_ffff) => Ok(Condition::Process { pid: pid as u32, began: None }),
        _ => Err(invalid("`process` must be the number of a process".into())),
    }
}

fn command(fields: &Fields) -> Result<Condition, Reject> {
    let Some(Value::Array(words)) = fields.get("command") else {
        return Err(invalid("`command` must be a list: [\"sh\", \"-c\", \"test -s out.log\"]".into()));
    };
    let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    let argv = words.ok_or_else(|| invalid("`command` must be a list of texts".into()))?;
    if argv.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(invalid("`command` does not name a program".into()));
    }
    let bytes: usize = argv.iter().map(String::len).sum();
    if argv.len() > COMMAND_WORDS_MAX || bytes > COMMAND_BYTES_MAX {
        let why =
            format!("`command` may have {COMMAND_WORDS_MAX} words and {COMMAND_BYTES_MAX} bytes; put it into a script");
        return Err(invalid(why));
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(invalid("`command` contains a NUL character".into()));
    }
    Ok(Condition::Command { argv })
}

/// Whom or what to look at.
fn text(fields: &Fields, field: &str) -> Result<String, Reject> {
    let Some(Value::String(text)) = fields.get(field) else {
        return Err(invalid(format!("`{field}` must be a text")));
    };
    let text = text.trim();
    if text.len() > TARGET_BYTES_MAX {
        return Err(invalid(format!("`{field}` is longer than {TARGET_BYTES_MAX} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid(format!("`{field}` contains control characters")));
    }
    Ok(text.to_owned())
}

/// What to look for, as it is written.
fn pattern(fields: &Fields, field: &str) -> Result<String, Reject> {
    let Some(Value::String(text)) = fields.get(field) else {
        return Err(invalid(format!("`{field}` must be a text")));
    };
    if text.chars().count() > PATTERN_CHARS_MAX {
        return Err(invalid(format!("`{field}` is longer than {PATTERN_CHARS_MAX} characters")));
    }
    if text.contains('\0') {
        return Err(invalid(format!("`{field}` contains a NUL character")));
    }
    Ok(text.clone())
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        _ => value.as_u64(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn invalid(why: String) -> Reject {
    Reject::InvalidArgument { field: "until".into(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_is_understood_and_shown_as_it_was_asked_for() {
        for (sent, words) in [
            (json!({"http": "http://localhost:3000/健康"}), "http://localhost:3000/健康 answers"),
            (
                json!({"http": "https://a.example/", "status": 204, "body_matches": "ok|好"}),
                "https://a.example/ answers 204 with a body that matches ok|好",
            ),
            (json!({"tcp": "localhost:5432"}), "localhost:5432 takes connections"),
            (json!({"tcp": "[::1]:80"}), "[::1]:80 takes connections"),
            (json!({"file": "/tmp/build.log", "exists": true}), "/tmp/build.log exists"),
            (json!({"file": "/tmp/锁", "exists": false}), "/tmp/锁 is gone"),
            (json!({"file": "/tmp/a", "changed": true}), "/tmp/a changes"),
            (json!({"file": "/tmp/a", "contains": "完成 🎉"}), "/tmp/a contains \"完成 🎉\""),
            (json!({"process": 4711}), "process 4711 ends"),
            (json!({"command": ["test", "-s", "/a b"]}), "`test -s /a b` exits with 0"),
        ] {
            let condition = parse(&sent).expect("valid").expect("asked for");
            assert_eq!(condition.to_value(), sent);
            assert_eq!(condition.to_string(), words);
            let kept = serde_json::to_string(&condition).expect("representable");
            assert_eq!(serde_json::from_str::<Condition>(&kept).expect("readable"), condition);
        }
    }

    #[test]
    fn models_are_met_halfway() {
        for nothing in [json!(null), json!(""), json!({}), json!({"http": "", "tcp": null, "command": []})] {
            assert_eq!(parse(&nothing), Ok(None), "{nothing}");
        }
        let condition = |sent: Value| parse(&sent).expect("valid").expect("asked for").to_value();
        assert_eq!(condition(json!("{\"tcp\": \"db:5432\"}")), json!({"tcp": "db:5432"}));
        assert_eq!(condition(json!({"process": " 12 ", "http": null})), json!({"process": 12}));
        assert_eq!(condition(json!({"http": "http://a", "status": "200"})), json!({"http": "http://a", "status": 200}));
        assert_eq!(condition(json!({"file": "/a"})), json!({"file": "/a", "exists": true}));
    }

    #[test]
    fn mistakes_are_named() {
        for (sent, why) in [
            (json!("soon"), "must be an object"),
            (json!(["http://a"]), "must be an object"),
            (json!({"url": "http://a"}), "does not say what"),
            (json!({"http": "http://a", "tcp": "a:1"}), "both `http` and `tcp`"),
            (json!({"http": "http://a", "method": "POST"}), "not `method`"),
            (json!({"tcp": "a:1", "status": 200}), "nothing besides, not `status`"),
            (json!({"http": "http://a", "status": 99}), "100 to 599"),
            (json!({"http": "http://a", "status": "ok"}), "100 to 599"),
            (json!({"http": 7}), "must be a text"),
            (json!({"http": "http://a", "body_matches": "x".repeat(1001)}), "longer than 1000"),
            (json!({"tcp": "localhost"}), "host:port"),
            (json!({"tcp": "localhost:0"}), "host:port"),
            (json!({"tcp": "localhost:99999"}), "host:port"),
            (json!({"tcp": "::1:80"}), "host:port"),
            (json!({"tcp": "http://a:80"}), "host:port"),
            (json!({"file": "build.log"}), "relative"),
            (json!({"file": "~/build.log"}), "relative"),
            (json!({"file": "/srv/../etc/passwd"}), "goes back"),
            (json!({"file": "/a\u{0}b"}), "control characters"),
            (json!({"file": "/a", "exists": true, "contains": "x"}), "one of"),
            (json!({"file": "/a", "exists": "yes"}), "true or false"),
            (json!({"file": "/a", "changed": false}), "only be true"),
            (json!({"process": 0}), "number of a process"),
            (json!({"process": -1}), "number of a process"),
            (json!({"process": "self"}), "number of a process"),
            (json!({"command": "ls -l"}), "must be a list"),
            (json!({"command": ["ls", 1]}), "list of texts"),
            (json!({"command": [" "]}), "does not name a program"),
            (json!({"command": vec!["x"; 65]}), "64 words"),
            (json!({"command": ["a\u{0}"]}), "NUL"),
        ] {
            let reject = parse(&sent).expect_err(&sent.to_string());
            assert!(reject.to_string().contains(why), "{sent}: {reject}");
            assert_eq!(reject.code(), "invalid_argument");
        }
    }
}
