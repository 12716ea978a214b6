//! Whether a process has ended. Its number may be given to another; when it began tells them apart.

use super::Look;
use reveille_core::Reject;

/// How things stand with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has it, as far as this server can see.
    Nobody,
    /// Its process has ended, and only its parent has not noticed.
    Ended,
    /// With when it began.
    Runs(String),
}

pub fn look(pid: u32, began: Option<&str>) -> Look {
    match (state(pid), began) {
        (State::Nobody, None) => Look::new(true, format!("there is no process {pid} that this server can see")),
        (State::Runs(now), Some(began)) if now != began => {
            Look::new(true, format!("process {pid} has ended; another one has its number now"))
        }
        (State::Nobody | State::Ended, _) => Look::new(true, format!("process {pid} has ended")),
        (State::Runs(_), _) => Look::new(false, format!("process {pid} still runs")),
    }
}

/// When a process that runs began.
pub fn runs_since(pid: u32) -> Option<String> {
    match state(pid) {
        State::Runs(began) => Some(began),
        State::Nobody | State::Ended => None,
    }
}

/// When the process began; `None`: it has just ended. One that is not there is nothing to wait for, and to call that met
/// would hide a wrong number.
pub fn began(pid: u32) -> Result<Option<String>, Reject> {
    match state(pid) {
        State::Runs(began) => Ok(Some(began)),
        State::Ended => Ok(None),
        State::Nobody => {
            let why = format!(
                "names process {pid}, which is not there: it has ended already, or is none that this server can see. There \
                 is nothing to wait for, and no timer was set; look at what the process left, or send the right number"
            );
            Err(Reject::InvalidArgument { field: "until".into(), why })
        }
    }
}

#[cfg(target_os = "linux")]
fn state(pid: u32) -> State {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return State::Nobody };
    // The name is in brackets and may contain anything; what follows the last one are plain fields.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    match (fields.first(), fields.get(19)) {
        (Some(&("Z" | "X" | "x")), _) => State::Ended,
        (Some(_), Some(ticks)) => {
            let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            State::Runs(format!("{ticks}@{}", boot.trim()))
        }
        _ => State::Nobody,
    }
}

#[cfg(not(target_os = "linux"))]
fn state(pid: u32) -> State {
    use rustix::process::{Pid, test_kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    match pid.map(test_kill_process) {
        None | Some(Err(rustix::io::Errno::SRCH)) => State::Nobody,
        Some(_) => State::Runs("there".to_owned()),
    }
}
