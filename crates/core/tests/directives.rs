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
