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

/// `None`: there is nothing in it that is ours. Takes time in proportion to the text, whatever is in it.
pub fn strip(text: &str) -> Option<Stripped> {
    let mut scan = Scan { text, at: 0, out: String::new(), broken_off: Vec::new(), ahead: Ahead::new(text) };
    let mut stripped = Stripped::default();
    while let Some((start, name)) = scan.next_beginning() {
        let (directive, end) = scan.ahead.read(name, scan.at);
        match directive {
            Some(directive) => stripped.directives.push(directive),
            None => stripped.malformed += 1,
        }
        scan.take_out(start, end);
    }
    let any = !stripped.directives.is_empty() || stripped.malformed > 0;
    any.then_some(Stripped { text: scan.out, ..stripped })
}

/// How much of a beginning, `<**`, blanks and a name, there is at the end of what was kept so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Nothing,
    /// So many bytes of `<**`; after all three, blanks too.
    Open(usize),
    /// So many bytes of the name with this number.
    Name(usize, usize),
}

/// A text being read from left to right; what is kept of it never has a whole beginning in it.
struct Scan<'a> {
    text: &'a str,
    /// How far the text was read.
    at: usize,
    /// What is kept.
    out: String,
    /// Beginnings in it that another one interrupted, and where: taking that one out may put their parts together.
    broken_off: Vec<(usize, Begun)>,
    ahead: Ahead<'a>,
}

impl Scan<'_> {
    /// Keeps everything up to the next beginning of a directive; where in the kept text it begins, and its name.
    fn next_beginning(&mut self) -> Option<(usize, &'static str)> {
        let mut begun = self.resumed();
        loop {
            if begun == Begun::Nothing {
                // Nothing before the next bracket matters.
                let rest = &self.text[self.at..];
                let plain = rest.find('<').unwrap_or(rest.len());
                self.out.push_str(&rest[..plain]);
                self.at += plain;
            }
            let byte = *self.text.as_bytes().get(self.at)?;
            if byte == b'<' && begun != Begun::Nothing {
                self.broken_off.push((self.out.len(), begun));
            }
            begun = begun.with(byte);
            if begun == Begun::Nothing {
                continue;
            }
            // All of these are ASCII, so that it is a whole character.
            self.out.push(char::from(byte));
            self.at += 1;
            if let Begun::Name(number, length) = begun
                && length == NAMES[number].len()
            {
                match self.text[self.at..].starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                    true => begun = Begun::Nothing,
                    false => return Some((self.out.rfind(OPEN).unwrap_or_default(), NAMES[number])),
                }
            }
        }
    }

    /// What the end of the kept text is the beginning of.
    fn resumed(&mut self) -> Begun {
        while let Some((at, begun)) = self.broken_off.pop_if(|(at, _)| *at >= self.out.len()) {
            if at == self.out.len() {
                return begun;
            }
        }
        Begun::Nothing
    }

    /// A line that had nothing else goes as a whole.
    fn take_out(&mut self, start: usize, end: usize) {
        self.out.truncate(start);
        self.at = end;
        let after = &self.text[end..];
        if self.out.is_empty() || self.out.ends_with('\n') {
            let line = ["\r\n", "\n"].into_iter().find(|line| after.starts_with(line));
            self.at += line.map_or(0, str::len);
        }
    }
}

impl Begun {
    fn with(self, byte: u8) -> Self {
        let open = OPEN.as_bytes();
        match self {
            _ if byte == b'<' => Self::Open(1),
            Self::Open(length) if length < open.len() && byte == open[length] => Self::Open(length + 1),
            Self::Open(length) if length == open.len() => match byte {
                b' ' | b'\t' => self,
                byte => {
                    let begins = |name: &&str| name.as_bytes()[0].eq_ignore_ascii_case(&byte);
                    NAMES.iter().position(begins).map_or(Self::Nothing, |number| Self::Name(number, 1))
                }
            },
            Self::Name(number, length) => {
                let next = NAMES[number].as_bytes().get(length);
                let fits = next.is_some_and(|next| next.eq_ignore_ascii_case(&byte));
                if fits { Self::Name(number, length + 1) } else { Self::Nothing }
            }
            Self::Open(_) | Self::Nothing => Self::Nothing,
        }
    }
}

/// The text to the right of what was read, where nothing is ever taken out. What was found there once is not looked for
/// again.
struct Ahead<'a> {
    text: &'a str,
    close: Next,
    open: Next,
    line: Next,
    /// The ends of texts in straight and in curly quotes.
    quotes: [Option<Quote>; 2],
}

/// The place of the next of something, known up to there.
#[derive(Default)]
struct Next(Option<usize>);

/// Where a quoted text ends, and the order it makes with what follows, if any: how many times, and where that ends.
#[derive(Clone, Copy)]
struct Quote {
    end: usize,
    follows: Option<(u32, usize)>,
}

impl Next {
    fn from(&mut self, at: usize, find: impl FnOnce() -> usize) -> usize {
        match self.0 {
            Some(known) if known >= at => known,
            _ => *self.0.insert(find()),
        }
    }
}

impl<'a> Ahead<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, close: Next::default(), open: Next::default(), line: Next::default(), quotes: [None; 2] }
    }

    /// What follows a name that ends at `at`: the order, if it is one, and where it ends.
    fn read(&mut self, name: &str, at: usize) -> (Option<Directive>, usize) {
        if let Some((directive, end)) = self.well_formed(name, at) {
            return (Some(directive), end);
        }
        // To its end, which is not that of another one; one without an end is over with its line.
        let (text, length) = (self.text, self.text.len());
        let find = |what: &str| text[at..].find(what).map_or(length, |found| at + found);
        let close = self.close.from(at, || find(CLOSE));
        let open = self.open.from(at, || find(OPEN));
        if close < open {
            return (None, close + CLOSE.len());
        }
        let line = self.line.from(at, || text[at..].find(['\n', '\r']).map_or(length, |found| at + found));
        (None, line.min(open))
    }

    fn well_formed(&mut self, name: &str, at: usize) -> Option<(Directive, usize)> {
        let inner = self.text[at..].trim_start().strip_prefix([':', '：'])?.trim_start();
        let at = self.text.len() - inner.len();
        match inner.get(..5) {
            Some(word) if word.eq_ignore_ascii_case("clear") => {
                let directive = if name == NAMES[0] { Directive::Disarm } else { Directive::ClearReminders };
                Some((directive, self.closed(at + 5)?))
            }
            _ if name == NAMES[0] => self.armed(at),
            _ => None,
        }
    }

    /// The end of a directive of which only blanks may be left.
    fn closed(&self, at: usize) -> Option<usize> {
        let after = self.text[at..].trim_start().strip_prefix(CLOSE)?;
        Some(self.text.len() - after.len())
    }

    /// `"text",3`; without a number, once.
    fn armed(&mut self, at: usize) -> Option<(Directive, usize)> {
        let inner = &self.text[at..];
        let (kind, open, close) =
            [(0, '"', '"'), (1, '“', '”')].into_iter().find(|(_, open, _)| inner.starts_with(*open))?;
        let begin = at + open.len_utf8();
        let known = self.quotes[kind].filter(|quote| quote.end >= begin);
        let quote = match known {
            Some(quote) => quote,
            None => {
                let quote = self.quote(begin, close);
                *self.quotes[kind].insert(quote)
            }
        };
        let (times, end) = quote.follows?;
        let text = unescaped(&self.text[begin..quote.end]);
        (!text.trim().is_empty()).then_some((Directive::Arm { text, times }, end))
    }

    /// The end of a quoted text. A later directive inside it finds the same one: what stands before its own quote is its
    /// name, so no backslash is halved between them.
    fn quote(&self, begin: usize, close: char) -> Quote {
        let mut chars = self.text[begin..].char_indices();
        while let Some((offset, c)) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                c if c == close => {
                    let end = begin + offset;
                    return Quote { end, follows: self.times(end + c.len_utf8()) };
                }
                _ => {}
            }
        }
        Quote { end: self.text.len(), follows: None }
    }

    /// How many times, and the end.
    fn times(&self, at: usize) -> Option<(u32, usize)> {
        let after = self.text[at..].trim_start();
        let (times, after) = match after.strip_prefix([',', '，']) {
            Some(after) => {
                let after = after.trim_start();
                let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                let times = after[..digits].parse::<u64>().ok()?;
                (times.min(u64::from(TIMES_MAX)) as u32, &after[digits..])
            }
            None => (1, &self.text[at..]),
        };
        let end = self.closed(self.text.len() - after.len())?;
        (times > 0).then_some((times, end))
    }
}

/// A backslash takes the next character as it is, and `\n` is a line break.
fn unescaped(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.extend(chars.next().map(|c| if c == 'n' { '\n' } else { c })),
            c => text.push(c),
        }
    }
    text
}
