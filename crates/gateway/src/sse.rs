//! Server-sent events as bytes: where frames end, and what a frame is called. Nothing is decoded or rebuilt, so what is
//! put together again is what came.

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2};

/// Cuts a stream of chunks into whole frames (a frame ends with an empty line) and keeps the beginning of the next.
#[derive(Debug)]
pub struct Splitter {
    /// A frame that is not whole yet.
    rest: BytesMut,
    /// How much of `rest` was looked at.
    seen: usize,
    /// The line being read has nothing in it yet.
    line_empty: bool,
    /// The last byte was a carriage return: a line feed right after it belongs to the same line end.
    after_return: bool,
    /// Where frames end in the block just returned; kept to spare an allocation per chunk.
    ends: Vec<usize>,
    frame_bytes_max: usize,
}

/// A frame would have been larger than allowed. Those before it are whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge(pub Bytes);

impl Splitter {
    pub fn new(frame_bytes_max: usize) -> Self {
        Self {
            rest: BytesMut::new(),
            seen: 0,
            line_empty: true,
            after_return: false,
            ends: Vec::new(),
            frame_bytes_max,
        }
    }

    /// Takes a chunk; gives the frames that are whole now as one block, and the end of each in it. All blocks and
    /// [`finish`](Self::finish) one after another are all chunks one after another.
    pub fn push(&mut self, chunk: Bytes) -> Result<(Bytes, &[usize]), TooLarge> {
        self.ends.clear();
        let block = if self.rest.is_empty() {
            let end = self.scan(&chunk, 0);
            self.rest.extend_from_slice(&chunk[end..]);
            chunk.slice(..end)
        } else {
            let mut rest = std::mem::take(&mut self.rest);
            rest.extend_from_slice(&chunk);
            let end = self.scan(&rest, self.seen);
            let block = rest.split_to(end).freeze();
            self.rest = rest;
            block
        };
        self.seen = self.rest.len();
        if self.rest.is_empty() {
            // Gives back what a large frame took.
            self.rest = BytesMut::new();
        }
        if self.rest.len() > self.frame_bytes_max {
            return Err(TooLarge(block));
        }
        Ok((block, &self.ends))
    }

    /// Where the frames end in the block that was given last.
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// What came after the last whole frame.
    pub fn finish(&mut self) -> Bytes {
        self.seen = 0;
        std::mem::take(&mut self.rest).freeze()
    }

    /// Notes the frames that end in `bytes` from `at` on; the end of the last.
    fn scan(&mut self, bytes: &[u8], mut at: usize) -> usize {
        if let Some(first) = bytes.get(at) {
            // The frame that the return ended is given away already; its feed leads the next block, harmlessly.
            at += usize::from(self.after_return && *first == b'\n');
            self.after_return = false;
        }
        while let Some(offset) = memchr2(b'\n', b'\r', &bytes[at..]) {
            self.line_empty &= offset == 0;
            let mut end = at + offset + 1;
            if bytes[end - 1] == b'\r' {
                match bytes.get(end) {
                    Some(b'\n') => end += 1,
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            if self.line_empty {
                self.ends.push(end);
            }
            self.line_empty = true;
            at = end;
        }
        self.line_empty &= at >= bytes.len();
        self.ends.last().copied().unwrap_or(0)
    }
}

/// The value of the first line with this field name; what nearly every frame consists of.
pub fn field<'a>(frame: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = frame;
    while !rest.is_empty() {
        let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        if let Some(value) = line.strip_prefix(name).and_then(|line| line.strip_prefix(b":")) {
            return Some(value.strip_prefix(b" ").unwrap_or(value));
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    None
}

/// The frame carries no data: comments only, which keep a connection alive.
pub fn is_comment(frame: &[u8]) -> bool {
    let start = frame.iter().position(|byte| !matches!(byte, b'\n' | b'\r')).unwrap_or(frame.len());
    match frame.get(start) {
        None => true,
        Some(b':') => field(frame, b"data").is_none(),
        Some(_) => false,
    }
}

/// One frame of ours.
pub fn frame(event: Option<&str>, data: &str) -> Bytes {
    debug_assert!(memchr(b'\n', data.as_bytes()).is_none(), "data is one line");
    match event {
        Some(event) => format!("event: {event}\ndata: {data}\n\n").into(),
        None => format!("data: {data}\n\n").into(),
    }
}
