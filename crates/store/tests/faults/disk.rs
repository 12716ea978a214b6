//! A disk that fails and waits on command: SQLite's own file layer with a switch before its writes and syncs. Becomes
//! the default of this process; only files in watched directories are concerned.
//!
//! The file objects stay SQLite's own. Only their table of methods is exchanged for a copy in which four entries lead
//! here first.

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};
use std::{
    collections::HashMap,
    ffi::{CStr, c_char, c_int, c_void},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A store that never syncs must fail a test, not hang it.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No room: writes fail.
    Full,
    /// Remounted read-only: writes fail.
    ReadOnly,
    /// The device fails while it makes writes durable: syncs fail.
    Sync,
}

#[derive(Clone)]
pub struct Disk(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    trouble: Option<(Trouble, usize)>,
    failed: usize,
    log_syncs: usize,
    gate: Gate,
}

#[derive(Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Open,
    Closed,
    /// Closed, and a sync waits before it.
    Waiting,
}

impl Disk {
    /// The disk under this directory, whose files are opened from now on.
    pub fn watch(directory: &Path) -> Disk {
        LazyLock::force(&LAYER);
        let disk = Disk(Arc::default());
        lock(&DISKS).insert(directory.to_owned(), disk.clone());
        disk
    }

    /// After this many more operations of the kind it concerns, all of them fail.
    pub fn fail_after(&self, operations: usize, trouble: Trouble) {
        let mut state = lock(&self.0.state);
        (state.trouble, state.failed) = (Some((trouble, operations)), 0);
    }

    /// All is well again; how many operations had failed.
    pub fn heal(&self) -> usize {
        let mut state = lock(&self.0.state);
        state.trouble = None;
        state.failed
    }

    /// How often the write-ahead log was made durable.
    pub fn log_syncs(&self) -> usize {
        lock(&self.0.state).log_syncs
    }

    /// From now on, nothing becomes durable.
    pub fn hold(&self) {
        lock(&self.0.state).gate = Gate::Closed;
    }

    /// Returns when something waits to become durable.
    pub fn wait_until_held(&self) {
        let state = lock(&self.0.state);
        let waited = self.0.changed.wait_timeout_while(state, PATIENCE, |state| state.gate != Gate::Waiting);
        let (_state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "nothing was made durable");
    }

    pub fn let_go(&self) {
        lock(&self.0.state).gate = Gate::Open;
        self.0.changed.notify_all();
    }

    fn on_write(&self) -> Option<c_int> {
        match lock(&self.0.state).due(|trouble| trouble != Trouble::Sync)? {
            Trouble::Full => Some(ffi::SQLITE_FULL),
            Trouble::ReadOnly => Some(ffi::SQLITE_READONLY),
            Trouble::Sync => unreachable!("does not concern writes"),
        }
    }

    fn on_sync(&self, is_log: bool) -> Option<c_int> {
        let mut state = lock(&self.0.state);
        while state.gate != Gate::Open {
            state.gate = Gate::Waiting;
            self.0.changed.notify_all();
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.log_syncs += usize::from(is_log);
        state.due(|trouble| trouble == Trouble::Sync).map(|_| ffi::SQLITE_IOERR_FSYNC)
    }
}

impl State {
    fn due(&mut self, concerned: impl Fn(Trouble) -> bool) -> Option<Trouble> {
        let (trouble, left) = self.trouble.as_mut().filter(|(trouble, _)| concerned(*trouble))?;
        if *left > 0 {
            *left -= 1;
            return None;
        }
        self.failed += 1;
        Some(*trouble)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The real layer's parts are SQLite's static data, valid as long as the process.
#[derive(Clone, Copy)]
struct Static<T: 'static>(&'static T);

// SAFETY: SQLite writes them only before they are published.
unsafe impl<T> Send for Static<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Static<T> {}

struct Open {
    real: Static<sqlite3_io_methods>,
    disk: Disk,
    is_log: bool,
}

static DISKS: LazyLock<Mutex<HashMap<PathBuf, Disk>>> = LazyLock::new(Mutex::default);
/// Open files, by the address of SQLite's object.
static FILES: LazyLock<Mutex<HashMap<usize, Open>>> = LazyLock::new(Mutex::default);

/// SQLite's own layer, beneath ours.
static LAYER: LazyLock<Static<sqlite3_vfs>> = LazyLock::new(|| {
    // SAFETY: the default layer exists once SQLite is initialized, and is never freed. Ours is a copy of it under
    // another name, leaked, hence valid as long.
    unsafe {
        assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK);
        let real: &'static sqlite3_vfs = &*ffi::sqlite3_vfs_find(std::ptr::null());
        let ours = Box::new(sqlite3_vfs { zName: c"faulty".as_ptr(), xOpen: Some(open), ..*real });
        assert_eq!(ffi::sqlite3_vfs_register(Box::into_raw(ours), 1), ffi::SQLITE_OK);
        Static(real)
    }
});

// SAFETY (all below): called by SQLite with its own, valid arguments, which are passed on as they came.

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let real = LAYER.0;
    let open = real.xOpen.expect("every layer opens files");
    let code = unsafe { open(std::ptr::from_ref(real).cast_mut(), name, file, flags, out) };
    if code == ffi::SQLITE_OK && !name.is_null() {
        let path = PathBuf::from(unsafe { CStr::from_ptr(name) }.to_str().expect("test paths are UTF-8"));
        let disk = path.parent().and_then(|directory| lock(&DISKS).get(directory).cloned());
        if let Some(disk) = disk {
            let real: &'static sqlite3_io_methods = unsafe { &*(*file).pMethods };
            let is_log = flags & ffi::SQLITE_OPEN_WAL != 0;
            lock(&FILES).insert(file as usize, Open { real: Static(real), disk, is_log });
            unsafe { (*file).pMethods = with_switches(real) };
        }
    }
    code
}

/// The same methods, with ours before four of them. Leaked: a few hundred bytes per opened file.
fn with_switches(real: &'static sqlite3_io_methods) -> *const sqlite3_io_methods {
    Box::into_raw(Box::new(sqlite3_io_methods {
        xClose: Some(close),
        xWrite: Some(write),
        xTruncate: Some(truncate),
        xSync: Some(sync),
        ..*real
    }))
}

fn known(file: *mut sqlite3_file) -> (&'static sqlite3_io_methods, Disk, bool) {
    let files = lock(&FILES);
    let open = &files[&(file as usize)];
    (open.real.0, open.disk.clone(), open.is_log)
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let (real, ..) = known(file);
    lock(&FILES).remove(&(file as usize));
    unsafe { real.xClose.expect("files can be closed")(file) }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, bytes: *const c_void, length: c_int, at: sqlite3_int64) -> c_int {
    let (real, disk, _) = known(file);
    match disk.on_write() {
        Some(code) => code,
        None => unsafe { real.xWrite.expect("files can be written")(file, bytes, length, at) },
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    let (real, disk, _) = known(file);
    match disk.on_write() {
        Some(code) => code,
        None => unsafe { real.xTruncate.expect("files can be cut")(file, size) },
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    let (real, disk, is_log) = known(file);
    match disk.on_sync(is_log) {
        Some(code) => code,
        None => unsafe { real.xSync.expect("files can be synced")(file, flags) },
    }
}
