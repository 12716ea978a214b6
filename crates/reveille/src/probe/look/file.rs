//! A file: whether it is there, is still as it was, has a text in it. Read on a thread that may block, in bounded pieces;
//! a long file is searched on from where the last look ended.

use super::{Eyes, FILE_THREADS_MAX, Look, http::line_of};
use crate::probe::{
    rules::Rules,
    schedule::{Memory, Searched},
};
use memchr::memmem;
use reveille_core::{Reject, condition::Expect};
use std::{
    fs::{self, File, Metadata},
    hash::{DefaultHasher, Hasher},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Searched in one look; the next goes on from there.
const SEARCH_BYTES_MAX: u64 = 16 * 1024 * 1024;
const PIECE_BYTES: usize = 64 * 1024;
/// Of what has been searched, so much at either end is compared.
const TRACE_BYTES: u64 = 4096;

impl Eyes {
    pub(super) async fn file(&self, path: &str, expect: &Expect, memory: Memory) -> Look {
        let (rules, place, expect) = (self.rules.clone(), PathBuf::from(path), expect.clone());
        self.on_a_thread(move || look(&rules, &place, &expect, memory)).await.unwrap_or_else(|| {
            let why = format!("{path}: {FILE_THREADS_MAX} looks at files hang; waiting for one to come back");
            Look { memory, ..Look::new(false, why) }
        })
    }

    /// How the file is now; `None`: it is not there. That nobody could look is an error: what is taken for missing has
    /// changed as soon as it is seen.
    pub(super) async fn state_of(&self, path: &str) -> Result<Option<String>, Reject> {
        let (rules, place) = (self.rules.clone(), PathBuf::from(path));
        let found = self.on_a_thread(move || {
            let place = rules.place(&place).ok()?;
            fs::metadata(place).ok().as_ref().map(state)
        });
        found.await.ok_or_else(|| {
            let why = format!("{path} could not be looked at: {FILE_THREADS_MAX} looks at files hang; try again");
            Reject::InvalidArgument { field: "until".into(), why }
        })
    }

    /// `None`: no thread is free. One that hangs in the file system keeps its place.
    async fn on_a_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let place = self.file_threads.clone().try_acquire_owned().ok()?;
        tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        })
        .await
        .ok()
    }
}

fn look(rules: &Rules, path: &Path, expect: &Expect, memory: Memory) -> Look {
    let shown = path.display();
    let found = rules.place(path).and_then(|place| fs::metadata(&place).map(|found| (place, found)));
    let (place, found) = match found {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match expect {
                Expect::Gone => Look::new(true, format!("{shown} is gone")),
                Expect::Changed { from: Some(_) } => Look::new(true, format!("{shown} has changed: it is gone")),
                _ => Look::new(false, format!("{shown} is not there")),
            };
        }
        Err(error) => return Look { memory, ..Look::new(false, format!("{shown}: {error}")) },
    };
    let size = found.len();
    match expect {
        Expect::Exists => Look::new(true, format!("{shown} exists, {size} bytes")),
        Expect::Gone => Look::new(false, format!("{shown} is still there")),
        Expect::Changed { from } if from.as_deref() == Some(&state(&found)) => {
            Look::new(false, format!("{shown} has not changed, {size} bytes"))
        }
        Expect::Changed { from: None } => Look::new(true, format!("{shown} has appeared, {size} bytes")),
        Expect::Changed { .. } => Look::new(true, format!("{shown} has changed, {size} bytes")),
        Expect::Contains { text } => match search(rules, &place, text.as_bytes(), memory) {
            Ok((Some(line), memory)) => Look { memory, ..Look::new(true, format!("{shown} contains: {line}")) },
            Ok((None, memory)) => Look { memory, ..Look::new(false, format!("{shown}, {size} bytes, not in it yet")) },
            Err(error) => Look::new(false, format!("{shown}: {error}")),
        },
    }
}

/// What differs when a file does.
fn state(found: &Metadata) -> String {
    format!("{}.{:09}/{}/{}", found.mtime(), found.mtime_nsec(), found.len(), found.ino())
}

/// The line in which the text is, and how far the file is searched now.
fn search(rules: &Rules, place: &Path, wanted: &[u8], memory: Memory) -> io::Result<(Option<String>, Memory)> {
    // A pipe must not hold the thread, and a link put there meanwhile must not lead elsewhere.
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits();
    let mut file = File::options().read(true).custom_flags(flags as i32).open(place)?;
    // Nor one of the directories above it.
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        rules.may(&fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?, place)?;
    }
    #[cfg(not(target_os = "linux"))]
    rules.place(place)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "only the text of an ordinary file can be searched"));
    }
    let same = |searched: &Searched| {
        let Searched { inode, until, trace } = *searched;
        inode == found.ino() && until <= found.len() && traced(&file, until).is_ok_and(|now| now == trace)
    };
    // Another file, or one written anew, is searched from its beginning.
    let begin = memory.searched.filter(same).map_or(0, |searched| searched.until);
    file.seek(SeekFrom::Start(begin))?;
    let finder = memmem::Finder::new(wanted);
    let (mut at, mut piece) = (begin, Vec::with_capacity(2 * PIECE_BYTES));
    loop {
        let read = file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)? as u64;
        at += read;
        if let Some(start) = finder.find(&piece) {
            return Ok((Some(line_of(&piece, start, start + wanted.len())), Memory::default()));
        }
        // What the text may have begun in is looked at again with what follows.
        let kept = piece.len().min(wanted.len().saturating_sub(1));
        piece.drain(..piece.len() - kept);
        if read == 0 || at - begin >= SEARCH_BYTES_MAX {
            let until = at - kept as u64;
            let searched = Searched { inode: found.ino(), until, trace: traced(&file, until)? };
            return Ok((None, Memory { searched: Some(searched) }));
        }
    }
}

/// What a file is known by up to there: its first bytes and the last ones before.
fn traced(file: &File, until: u64) -> io::Result<u64> {
    let mut edge = vec![0; until.min(TRACE_BYTES) as usize];
    let mut hasher = DefaultHasher::new();
    for from in [0, until - edge.len() as u64] {
        file.read_exact_at(&mut edge, from)?;
        hasher.write(&edge);
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_written_anew_that_has_grown_as_long_is_searched_from_its_beginning() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("build.log");
        let contains = |memory| {
            let expect = Expect::Contains { text: "BUILD SUCCESS".into() };
            look(&Rules::default(), &path, &expect, memory)
        };
        let banner = "=== build ===\n".repeat(400);
        fs::write(&path, format!("{banner}{}", "compiling\n".repeat(1000))).expect("written");
        let first = contains(Memory::default());
        assert!(!first.holds);
        // Written into the same file, as a shell does.
        let mut file = File::options().write(true).truncate(true).open(&path).expect("opened");
        let anew = format!("{banner}BUILD SUCCESS\n{}", "linking\n".repeat(2000));
        io::Write::write_all(&mut file, anew.as_bytes()).expect("written");
        assert!(contains(first.memory).holds);
        // One that only grows is not searched twice.
        fs::write(&path, "compiling\n").expect("written");
        let first = contains(Memory::default());
        fs::write(&path, "compiling\nlinking\n").expect("written");
        let second = contains(first.memory);
        let until = |look: &Look| look.memory.searched.map(|searched| searched.until);
        assert!(!second.holds && until(&second) > until(&first));
    }

    #[test]
    fn a_growing_file_is_searched_on_and_a_new_one_from_its_beginning() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("构建.log");
        let contains = |memory| {
            let expect = Expect::Contains { text: "构建 SUCCESS".into() };
            look(&Rules::default(), &path, &expect, memory)
        };
        assert_eq!(contains(Memory::default()).seen, format!("{} is not there", path.display()));
        // Longer than a piece, and the text comes in two parts.
        let long = "step\n".repeat(50_000);
        fs::write(&path, format!("{long}构建 SUC")).expect("written");
        let first = contains(Memory::default());
        let until = first.memory.searched.expect("remembered").until;
        assert!(!first.holds && until > long.len() as u64 - 20, "{first:?}");
        fs::write(&path, format!("{long}构建 SUCCESS in 3 s\nend")).expect("written");
        let second = contains(first.memory);
        assert!(second.holds && second.seen.ends_with("contains: 构建 SUCCESS in 3 s"), "{second:?}");
        // Written anew and shorter.
        fs::write(&path, "x 构建 SUCCESS").expect("written");
        assert!(contains(first.memory).holds);
    }

    #[test]
    fn a_text_over_the_edge_of_a_piece_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let expect = Expect::Contains { text: "needle".into() };
        for before in [PIECE_BYTES - 7, PIECE_BYTES - 6, PIECE_BYTES - 3, PIECE_BYTES, 3 * PIECE_BYTES - 1] {
            fs::write(&path, format!("{}needle", "x".repeat(before))).expect("written");
            assert!(look(&Rules::default(), &path, &expect, Memory::default()).holds, "{before}");
        }
    }

    #[test]
    fn a_pipe_and_a_directory_hold_nothing_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let expect = Expect::Contains { text: "x".into() };
        for path in [pipe.as_path(), directory.path()] {
            let look = look(&Rules::default(), path, &expect, Memory::default());
            assert!(!look.holds && look.seen.contains("ordinary file"), "{look:?}");
        }
    }
}
