//! Directives in a user's text: what is an order, and that nothing that looks like one goes on to the model.

use proptest::prelude::*;
use reveille_core::directive::{Directive, Stripped, TIMES_MAX, strip};

fn arm(text: &str, times: u32) -> Directive {
    Directive::Arm { text: text.into(), times }
}

#[track_caller]
fn check(text: &str, left: &str, directives: Vec<Directive>, malformed: usize) {
    assert_eq!(strip(text), Some(Stripped { text: left.into(), directives, malformed }), "{text}");
}

/// One that was not closed takes no other with it, nor what the user wrote below it.
#[test]
fn a_directive_without_an_end_is_over_with_its_line() {
    let text = "<**stopMessage:\"go\",3\nfirst\nsecond <**clock:clear**> third";
    check(text, "first\nsecond  third", vec![Directive::ClearReminders], 1);
    check("<**stopMessage:\"go\" <**clock:clear**> 好", " 好", vec![Directive::ClearReminders], 1);
}

#[test]
fn orders() {
    check("a <**stopMessage:\"go on\",3**> b", "a  b", vec![arm("go on", 3)], 0);
    check("<**stopMessage:\"继续 🙂\", 12**>", "", vec![arm("继续 🙂", 12)], 0);
    check("<** stopmessage : “继续”，2 **>x", "x", vec![arm("继续", 2)], 0);
    check("<**stopMessage:\"say \\\"hi\\\"\\nthen **> stop\",1**>", "", vec![arm("say \"hi\"\nthen **> stop", 1)], 0);
    check("<**stopMessage:\"once\"**>", "", vec![arm("once", 1)], 0);
    check("<**stopMessage:\"many\",99999999999**>", "", vec![arm("many", TIMES_MAX)], 0);
    check("<**stopMessage:clear**>", "", vec![Directive::Disarm], 0);
    check("one\n<**clock:clear**>\ntwo", "one\ntwo", vec![Directive::ClearReminders], 0);
    check(
        "<**clock:clear**><**stopMessage:\"a\",1**> and <**stopMessage:CLEAR**>",
        " and ",
        vec![Directive::ClearReminders, arm("a", 1), Directive::Disarm],
        0,
    );
}

#[test]
fn mistakes_are_taken_out_and_carried_out_never() {
    check("a <**stopMessage:go on,3**> b", "a  b", vec![], 1);
    check("<**stopMessage:\"a\",0**>", "", vec![], 1);
    check("<**stopMessage:\"a\",-1**>", "", vec![], 1);
    check("<**stopMessage:\" \",1**>", "", vec![], 1);
    check("<**stopMessage**> <**clock:now**> <**clock**>", "  ", vec![], 3);
    check("<**stopMessage:\"open\nnext line", "next line", vec![], 1);
    check("<**clo<**clock:clear**>ck:clear**>x", "x", vec![Directive::ClearReminders; 2], 0);
}

#[test]
fn other_text_is_left_alone() {
    for text in
        ["", "**bold** <b>", "<**bold**>", "<**clockwork**>", "stopMessage:\"a\",1", "<* *clock:clear**>", "<**"]
    {
        assert_eq!(strip(text), None, "{text}");
    }
}

fn looks_like_one(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["<**stopmessage", "<**clock", "<** stopmessage", "<** clock"].iter().any(|marker| {
        lower
            .match_indices(marker)
            .any(|(at, _)| !lower[at + marker.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

const OPEN: &str = "<**";
const CLOSE: &str = "**>";
const NAMES: [&str; 2] = ["stopMessage", "clock"];

/// The same in the simplest words, which take time in proportion to the square of the text: the first one is taken out, until
/// there is none.
fn simple(text: &str) -> Option<Stripped> {
    find(text)?;
    let mut stripped = Stripped { text: text.to_owned(), ..Stripped::default() };
    // Taking one out may put the parts of another together.
    while let Some((start, name, rest)) = find(&stripped.text) {
        let (directive, length) = read(name, &stripped.text[rest..]);
        match directive {
            Some(directive) => stripped.directives.push(directive),
            None => stripped.malformed += 1,
        }
        stripped.text = without(&stripped.text, start, rest + length);
    }
    Some(stripped)
}

/// The first beginning of a directive, which it is, and where what follows its name begins.
fn find(text: &str) -> Option<(usize, &'static str, usize)> {
    let starts = text.match_indices(OPEN).map(|(start, _)| start);
    starts.into_iter().find_map(|start| {
        let inner = start + OPEN.len();
        let blank = text[inner..].len() - text[inner..].trim_start_matches([' ', '\t']).len();
        let named = &text[inner + blank..];
        NAMES.into_iter().find_map(|name| {
            let head = named.get(..name.len())?;
            let ends = !named[name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
            (head.eq_ignore_ascii_case(name) && ends).then_some((start, name, inner + blank + name.len()))
        })
    })
}

/// What follows a name: the order, if it is one, and how much of the text belongs to it.
fn read(name: &str, rest: &str) -> (Option<Directive>, usize) {
    if let Some((directive, length)) = well_formed(name, rest) {
        return (Some(directive), length);
    }
    // To its end, which is not that of another one; one without an end is over with its line.
    let (close, open) = (rest.find(CLOSE), rest.find(OPEN).unwrap_or(rest.len()));
    let line = rest.find(['\n', '\r']).unwrap_or(rest.len());
    (None, close.filter(|at| *at < open).map_or(line.min(open), |at| at + CLOSE.len()))
}

fn well_formed(name: &str, rest: &str) -> Option<(Directive, usize)> {
    let inner = rest.trim_start().strip_prefix([':', '：'])?.trim_start();
    let (directive, after) = match inner.get(..5) {
        Some(word) if word.eq_ignore_ascii_case("clear") => {
            let directive = if name == NAMES[0] { Directive::Disarm } else { Directive::ClearReminders };
            (directive, &inner[5..])
        }
        _ if name == NAMES[0] => armed(inner)?,
        _ => return None,
    };
    let after = after.trim_start().strip_prefix(CLOSE)?;
    Some((directive, rest.len() - after.len()))
}

/// `"text",3`; without a number, once.
fn armed(inner: &str) -> Option<(Directive, &str)> {
    let (text, after) = quoted(inner)?;
    let (times, after) = match after.trim_start().strip_prefix([',', '，']) {
        Some(after) => {
            let after = after.trim_start();
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let times = after[..digits].parse::<u64>().ok()?;
            (times.min(u64::from(TIMES_MAX)) as u32, &after[digits..])
        }
        None => (1, after),
    };
    let empty = text.trim().is_empty() || times == 0;
    (!empty).then_some((Directive::Arm { text, times }, after))
}

/// A text in straight or curly quotes; a backslash takes the next character as it is, and `\n` is a line break.
fn quoted(inner: &str) -> Option<(String, &str)> {
    let mut chars = inner.char_indices();
    let close = match chars.next()?.1 {
        '"' => '"',
        '“' => '”',
        _ => return None,
    };
    let mut text = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next()?.1 {
                'n' => text.push('\n'),
                other => text.push(other),
            },
            c if c == close => return Some((text, &inner[at + c.len_utf8()..])),
            c => text.push(c),
        }
    }
    None
}

/// A line that had nothing else goes as a whole.
fn without(text: &str, start: usize, end: usize) -> String {
    let (before, after) = (&text[..start], &text[end..]);
    let alone = before.is_empty() || before.ends_with('\n');
    match after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')) {
        Some(after) if alone => format!("{before}{after}"),
        _ => format!("{before}{after}"),
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<**",
        "**>",
        "<",
        "*",
        "stopMessage",
        "stopMess",
        "age",
        "clock",
        "clo",
        "ck",
        ":",
        "clear",
        "\"",
        "“",
        "”",
        ",",
        "，",
        "3",
        "0",
        "\\",
        "\n",
        "\r\n",
        " ",
        "\t",
        "go",
        "好",
        "🙂",
        "<**clock:clear**>",
        "<**stopMessage:",
        "_",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Each of these took the square of its length.
#[test]
fn the_time_grows_with_the_text_alone() {
    let many = 40_000;
    let blanks = " ".repeat(many);
    for (text, malformed) in [
        ("<**clock:clear**>".repeat(many), 0),
        ("<**stopMessage:“".repeat(many), many),
        ("<**stopMessage:\"a".repeat(many), many),
        (format!("{}”", "<**stopMessage:“".repeat(many)), many),
        (format!("{}”{blanks}", "<**stopMessage:“".repeat(many)), many),
        (format!("<**{blanks}{}", "<**clock**>".repeat(many)), many),
        ("<**clo".repeat(many) + "<**clock**>" + &"ck**>".repeat(many), many + 1),
    ] {
        let stripped = strip(&text).expect("some are there");
        assert_eq!(stripped.malformed, malformed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// From pieces that are likely to make directives, or nearly.
    #[test]
    fn nothing_that_looks_like_one_is_left(pieces in prop::collection::vec(prop::sample::select(vec![
        "<**", "**>", "stopMessage", "clock", ":", "clear", "\"", "“", "”", ",", "，", "3", "\\", "\n", "\r\n", " ", "go", "好", "🙂", "<", "*",
    ]), 0..30)) {
        let text: String = pieces.concat();
        match strip(&text) {
            None => prop_assert!(!looks_like_one(&text), "{}", text),
            Some(stripped) => {
                prop_assert!(!looks_like_one(&stripped.text), "{} of {}", stripped.text, text);
                prop_assert_eq!(strip(&stripped.text), None);
                prop_assert!(stripped.text.len() < text.len());
                prop_assert!(stripped.malformed + stripped.directives.len() > 0);
            }
        }
    }

    /// The quick way is the simple one.
    #[test]
    fn as_the_simple_version_does_it(text in pieces()) {
        prop_assert_eq!(strip(&text), simple(&text));
    }

    /// Whatever is written as an order is read as that order, wherever it stands.
    #[test]
    fn what_is_written_is_read(text in "[^\\p{C}]{1,40}", times in 1_u32..=TIMES_MAX, before in "[a-z \\n]{0,20}", after in "[a-z \\n]{0,20}") {
        prop_assume!(!text.trim().is_empty());
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let stripped = strip(&format!("{before}<**stopMessage:\"{quoted}\",{times}**>{after}")).expect("one is there");
        prop_assert_eq!(stripped.directives, vec![arm(&text, times)]);
        prop_assert_eq!(stripped.text.replace('\n', ""), format!("{before}{after}").replace('\n', ""));
    }
}
