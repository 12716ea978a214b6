//! Secrets that are written out in an agent's configuration. They are shown to nobody; and whoever sets again what was
//! shown keeps them, as long as they go where they went before.

use super::{
    check::{Invalid, fill},
    config::{AgentConfig, WebhookConfig},
};
use url::Url;

/// Stands for a secret that is there.
pub const HIDDEN: &str = "(not shown)";

/// As everybody may see it. References to secrets say nothing, and stay.
pub fn hide(config: &mut AgentConfig) {
    let headers = config.tools.iter_mut().filter_map(|tool| tool.endpoint.as_mut());
    let headers = headers.flat_map(|endpoint| endpoint.headers.values_mut());
    let secrets = config.webhooks.iter_mut().map(|webhook| &mut webhook.secret);
    for text in headers.chain(secrets).filter(|text| !text.contains("${")) {
        *text = HIDDEN.into();
    }
    let urls = config.tools.iter_mut().filter_map(|tool| tool.endpoint.as_mut()).map(|endpoint| &mut endpoint.url);
    for url in urls.chain(config.webhooks.iter_mut().map(|webhook| &mut webhook.url)) {
        *url = without_values(url);
    }
}

/// A URL as everybody may see it: what its query says may be a key. Parts that depend on the session are none.
fn without_values(url: &str) -> String {
    each_value(url, |_, value| if value.contains('{') { value.to_owned() } else { HIDDEN.to_owned() })
}

fn each_value(url: &str, mut write: impl FnMut(&str, &str) -> String) -> String {
    let Some((base, query)) = url.split_once('?') else { return url.to_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() => format!("{name}={}", write(name, value)),
        _ => pair.to_owned(),
    });
    format!("{base}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Puts the values of `before` back; `None`: it does not have one of them.
fn with_values(url: &str, before: Option<&str>) -> Option<String> {
    let query = before.and_then(|before| before.split_once('?')).map_or("", |(_, query)| query);
    let kept = |name: &str| query.split('&').find_map(|pair| pair.split_once('=').filter(|(known, _)| *known == name));
    let mut whole = true;
    let url = each_value(url, |name, value| match (value == HIDDEN, kept(name)) {
        (false, _) => value.to_owned(),
        (true, Some((_, kept))) => kept.to_owned(),
        (true, None) => {
            whole = false;
            String::new()
        }
    });
    whole.then_some(url)
}

/// Puts back what was hidden.
pub fn restore(config: &mut AgentConfig, known: Option<&AgentConfig>) -> Result<(), Invalid> {
    for (number, tool) in config.tools.iter_mut().enumerate() {
        let Some(endpoint) = &mut tool.endpoint else { continue };
        let before = known.and_then(|known| known.tools.iter().find(|before| before.name == tool.name));
        let before = before.and_then(|before| before.endpoint.as_ref());
        let before =
            before.filter(|before| origin(&before.url).is_some() && origin(&before.url) == origin(&endpoint.url));
        endpoint.url = with_values(&endpoint.url, before.map(|before| before.url.as_str()))
            .ok_or_else(|| unknown(format!("tools[{number}].endpoint.url")))?;
        for (name, text) in endpoint.headers.iter_mut().filter(|(_, text)| *text == HIDDEN) {
            let kept = before.and_then(|before| before.headers.get(name));
            *text = kept.cloned().ok_or_else(|| unknown(format!("tools[{number}].endpoint.headers.{name}")))?;
        }
    }
    for (number, webhook) in config.webhooks.iter_mut().enumerate() {
        let shown = |before: &&WebhookConfig| without_values(&before.url) == webhook.url;
        let before = known.and_then(|known| known.webhooks.iter().find(shown));
        webhook.url = with_values(&webhook.url, before.map(|before| before.url.as_str()))
            .ok_or_else(|| unknown(format!("webhooks[{number}].url")))?;
    }
    for (number, webhook) in config.webhooks.iter_mut().enumerate().filter(|(_, webhook)| webhook.secret == HIDDEN) {
        let kept = known.and_then(|known| known.webhooks.iter().find(|before| before.url == webhook.url));
        let kept = kept.map(|before| before.secret.clone());
        webhook.secret = kept.ok_or_else(|| unknown(format!("webhooks[{number}].secret")))?;
    }
    Ok(())
}

/// Whom a URL belongs to: what was meant for one is not told to another.
fn origin(url: &str) -> Option<url::Origin> {
    Url::parse(&fill(url, "s", "t", "c")).ok().map(|url| url.origin())
}

fn unknown(field: String) -> Invalid {
    let why = format!("is '{HIDDEN}', but none is kept for this name and host; write it, or ${{NAME}} for a reference");
    Invalid::new(field, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn agent(url: &str, key: &str, secret: &str) -> AgentConfig {
        let headers = json!({"authorization": key, "x-team": "${TEAM}"});
        let agent = json!({
            "tools": [{"name": "save", "endpoint": {"url": url, "headers": headers}}],
            "webhooks": [{"url": "https://app.example/h", "secret": secret}],
        });
        serde_json::from_value(agent).expect("readable")
    }

    #[test]
    fn what_is_hidden_comes_back_and_goes_nowhere_else() {
        let known = agent("https://crm.example/{session}", "Bearer 密", "whsec_abc");
        let mut shown = known.clone();
        hide(&mut shown);
        assert_eq!(shown, agent("https://crm.example/{session}", HIDDEN, HIDDEN));
        restore(&mut shown, Some(&known)).expect("kept");
        assert_eq!(shown, known);
        for (url, before, field) in [
            ("https://crm.example.evil/x", Some(&known), "tools[0].endpoint.headers.authorization"),
            ("http://crm.example/x", Some(&known), "tools[0].endpoint.headers.authorization"),
            ("https://crm.example/{session}", None, "tools[0].endpoint.headers.authorization"),
        ] {
            let refused = restore(&mut agent(url, HIDDEN, "whsec_new"), before).expect_err(url);
            assert_eq!(refused.field, field);
        }
        // Keys in a URL are secrets like any other.
        let mut keyed = agent("https://crm.example/x?key=geheim&s={session}&flag", "Bearer 密", "whsec_abc");
        keyed.webhooks[0].url = "https://app.example/h?token=geheim".into();
        let mut shown = keyed.clone();
        hide(&mut shown);
        assert!(!serde_json::to_string(&shown).expect("readable").contains("geheim"), "{shown:?}");
        restore(&mut shown, Some(&keyed)).expect("kept");
        assert_eq!(shown, keyed);
        let mut elsewhere = keyed.clone();
        hide(&mut elsewhere);
        elsewhere.tools[0].endpoint.as_mut().expect("it has one").url =
            format!("https://evil.example/x?key={HIDDEN}&s={{session}}&flag");
        assert_eq!(restore(&mut elsewhere, Some(&keyed)).expect_err("another host").field, "tools[0].endpoint.url");
        let mut moved = agent("https://crm.example/other", HIDDEN, HIDDEN);
        moved.webhooks[0].url = "https://app.example/elsewhere".into();
        assert_eq!(restore(&mut moved, Some(&known)).expect_err("another hook").field, "webhooks[0].secret");
    }
}
