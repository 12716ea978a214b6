//! The binary: everything is in the library.

/// Requests allocate small things on many threads; the system's allocator spends a tenth of a request on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // The allocator asks for huge pages, in which thousands of connections' half-used buffers count in full.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    reveille::cli::main()
}
