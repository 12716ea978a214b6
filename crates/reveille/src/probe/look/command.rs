//! A command that says by its exit whether it holds. In the root directory, with no input, killed whole when its time is
//! over or nobody waits for it any more.

use super::{Eyes, Look};
use crate::wake::process::{Order, run};
use std::path::Path;

impl Eyes {
    pub(super) async fn command(&self, argv: &[String]) -> Look {
        let Some((program, arguments)) = argv.split_first() else { return Look::new(false, "no command") };
        // Whoever may set a condition need not be whoever may use the server.
        let env = vec![("REVEILLE_TOKEN".to_owned(), String::new())];
        let order = Order {
            program,
            arguments: arguments.to_vec(),
            cwd: Some(Path::new("/")),
            env,
            stdin: String::new(),
            gated: false,
        };
        let ended = run(order, std::future::pending()).await;
        let said = ended.output.trim();
        let said = if said.is_empty() { String::new() } else { format!(": {}", tail(said)) };
        match ended.code {
            Some(code) => Look::new(code == 0, format!("{program} exited with {code}{said}")),
            None => Look::new(false, format!("{program} did not exit by itself{said}")),
        }
    }
}

/// The end of what was said is where the result is.
fn tail(said: &str) -> &str {
    const CHARS: usize = 200;
    match said.char_indices().rev().nth(CHARS - 1) {
        Some((begin, _)) => &said[begin..],
        None => said,
    }
}
