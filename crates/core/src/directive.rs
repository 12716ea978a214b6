//! What a user may order in the middle of a message: `<**stopMessage:"text",3**>`, `<**stopMessage:clear**>`,
//! `<**clock:clear**>`. Whatever begins like one of them is taken out of the text, well formed or not: it is not meant for
//! the model. Pure text in, text and orders out; carrying them out is not known here.

/// A larger number of continuations is taken as this one.
pub const TIMES_MAX: u32 = 1000;
const OPEN: &str = "<**";
const CLOSE: &str = "**>";
const NAMES: [&str; 2] = ["stopMessage", "clock"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Continue with this text when the model stops, so many times.
    Arm {
        text: String,
        times: u32,
    },
    Disarm,
    ClearReminders,
}

/// A text without its directives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stripped {
    pub text: String,
    /// The well formed ones, in order.
    pub directives: Vec<Directive>,
    /// Others were there.
    pub malformed: usize,
}

/// `None`: there is nothing in it that is ours.
pub fn strip(text: &str) -> Option<Stripped> {
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
