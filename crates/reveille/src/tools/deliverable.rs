//! Accepted means deliverable: by which ways a mission's message can reach its agent, as far as is known now.

use crate::engine::Reach;
use serde::Serialize;
use utoipa::ToSchema;

/// What is known about a session when a mission is accepted.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The call declared that its client follows tasks, and tells its model when one ends.
    pub task: bool,
    pub reach: Reach,
    /// The wake rule that serves the session.
    pub wake_rule: Option<String>,
}

/// How the message of a mission will come, in order of preference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Deliverable {
    /// `task`, `presence`, `hook:rewake`, `wake:NAME`, `events` or `hook`; empty: it waits for the next tool call.
    #[schema(example = json!(["wake:claude-code"]))]
    pub channels: Vec<String>,
    /// Whether one of them reaches an agent that has ended its turn, as things are now.
    pub wakes: bool,
    /// The wake command waits for a client that is there and cannot wake its agent.
    #[serde(skip)]
    pub wakes_later: bool,
}

pub fn deliverable(known: &Known) -> Deliverable {
    let reach = &known.reach;
    let waking = [(known.task, "task"), (reach.waking_client, "presence"), (reach.rewake_hook, "hook:rewake")];
    let mut channels: Vec<String> =
        waking.into_iter().filter(|(there, _)| *there).map(|(_, name)| name.to_owned()).collect();
    let live = !channels.is_empty();
    let command = known.wake_rule.as_ref().map(|rule| format!("wake:{rule}"));
    let wakes = live || command.is_some() && !reach.silent_client;
    let wakes_later = !wakes && command.is_some();
    channels.extend(command);
    // Followers hear of the message but deliver nothing.
    if reach.follower {
        channels.push("events".into());
    }
    if reach.hook {
        channels.push("hook".into());
    }
    Deliverable { channels, wakes, wakes_later }
}

impl Deliverable {
    /// What to say when nothing wakes the agent by itself.
    pub fn warning(&self, client: Option<&str>) -> Option<String> {
        if self.wakes {
            return None;
        }
        if self.wakes_later {
            return Some(
                "Nothing can wake this session while this window is open: the message waits for the next prompt or tool \
                 call, and the wake command runs only after the window is closed. Tell the user so."
                    .into(),
            );
        }
        // Clients add to their names: `codex-mcp-client`.
        let find = |list: &[&'static str]| {
            let client = client?;
            list.iter().copied().find(|known| client.starts_with(known))
        };
        let setup = match (find(&WAKEABLE), find(&UNREACHABLE)) {
            (Some(client), _) => format!("; `reveille setup {client}` on this machine sets up waking for new sessions"),
            (None, Some(_)) => String::new(),
            (None, None) => {
                format!("; `reveille setup CLIENT` on this machine sets up waking for {}", WAKEABLE.join(", "))
            }
        };
        let waits = match self.channels.is_empty() {
            true => "the message will wait for your next tool call",
            false => "the message will wait for the next prompt or tool call",
        };
        Some(format!("Nothing can wake this session: {waits}. Tell the user so{setup}."))
    }
}

/// Clients for which `reveille setup` sets up waking.
const WAKEABLE: [&str; 3] = ["claude-code", "codex", "gemini"];
/// Those for which it cannot: they do not say which conversation is which, or cannot resume one.
const UNREACHABLE: [&str; 3] = ["opencode", "cursor", "cline"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_counts() {
        let reach = |f: fn(&mut Reach)| {
            let mut reach = Reach::default();
            f(&mut reach);
            Known { reach, ..Known::default() }
        };
        let rule = Some("claude".to_owned());
        for (known, channels, wakes) in [
            (Known::default(), &[][..], false),
            (Known { task: true, ..Known::default() }, &["task"], true),
            (reach(|reach| reach.waking_client = true), &["presence"], true),
            (reach(|reach| reach.rewake_hook = true), &["hook:rewake"], true),
            (reach(|reach| reach.follower = true), &["events"], false),
            (reach(|reach| reach.hook = true), &["hook"], false),
            (Known { wake_rule: rule.clone(), ..Known::default() }, &["wake:claude"], true),
            (Known { wake_rule: rule.clone(), ..reach(|reach| reach.silent_client = true) }, &["wake:claude"], false),
            (
                Known {
                    wake_rule: rule.clone(),
                    ..reach(|reach| (reach.silent_client, reach.rewake_hook) = (true, true))
                },
                &["hook:rewake", "wake:claude"],
                true,
            ),
            (
                Known {
                    task: true,
                    reach: Reach {
                        waking_client: true,
                        silent_client: true,
                        follower: true,
                        hook: true,
                        rewake_hook: true,
                    },
                    wake_rule: rule,
                },
                &["task", "presence", "hook:rewake", "wake:claude", "events", "hook"],
                true,
            ),
        ] {
            let found = deliverable(&known);
            assert_eq!(
                (found.channels.as_slice(), found.wakes),
                (&channels.iter().map(|c| c.to_string()).collect::<Vec<_>>()[..], wakes),
                "{known:?}"
            );
            assert_eq!(found.warning(None).is_none(), wakes);
        }
        let nothing = deliverable(&Known::default());
        assert!(nothing.warning(Some("codex-mcp-client")).is_some_and(|hint| hint.contains("`reveille setup codex`")));
        assert!(nothing.warning(Some("else")).is_some_and(|hint| hint.contains("`reveille setup CLIENT`")));
        assert!(nothing.warning(Some("opencode")).is_some_and(|hint| !hint.contains("reveille setup")));
    }
}
