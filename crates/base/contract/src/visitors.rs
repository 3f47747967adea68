//! Which host names a server accepts, and pages of which origins.
//!
//! Every process that can reach an open listener on loopback may use it. Without this check so
//! could every page in a browser on that machine, in two ways: by a name of its own that it
//! points at loopback ("DNS rebinding"), and by a form or a WebSocket, which browsers send to
//! any host. The first is recognised by its `Host` header, the second by its `Origin`.
//!
//! Like [`Access`](crate::Access), the rule is one for every listener and knows headers only
//! as bytes. Requests without these headers come from no browser, and pass.

use std::net::{IpAddr, Ipv6Addr};

use crate::access::Denied;

/// Host names and origins that a server accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visitors {
    hosts_checked: bool,
    origins_checked: bool,
    /// Beyond loopback's own, in lower case, without ports.
    names: Vec<String>,
}

impl Visitors {
    /// Accepts every host name and origin.
    pub fn anybody() -> Self {
        Self::default()
    }

    /// The rule for a listener. Names are asked for on loopback without `keys`, where a name
    /// can only be somebody else's, and wherever there is a list of `names`.
    pub fn new(on_loopback: bool, keys: bool, names: &[String]) -> Self {
        Self {
            hosts_checked: (on_loopback && !keys) || !names.is_empty(),
            // A key is what no other site's page has.
            origins_checked: !keys,
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
        }
    }

    /// Whether a request may pass that asks for `host`. One that `acts` does more than look.
    pub fn check(
        &self,
        host: Option<&[u8]>,
        origin: Option<&[u8]>,
        acts: bool,
    ) -> Result<(), Denied> {
        if self.hosts_checked
            && let Some(host) = host
            && !self.knows(host)
        {
            return Err(Denied::ForeignHost);
        }
        match origin {
            Some(origin) if acts && self.origins_checked && !self.is_own(origin, host) => {
                Err(Denied::OtherSite)
            }
            _ => Ok(()),
        }
    }

    /// Whether a `Host` is loopback's or one of the names.
    fn knows(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else {
            return false;
        };
        let name = without_port(host).to_ascii_lowercase();
        name == "localhost" || is_loopback(&name) || self.names.contains(&name)
    }

    /// Whether a page comes from the host that is asked, or from one of the names.
    fn is_own(&self, origin: &[u8], host: Option<&[u8]>) -> bool {
        let schemes = [b"http://".as_slice(), b"https://"];
        let Some(authority) = schemes.iter().find_map(|&http| origin.strip_prefix(http)) else {
            return false;
        };
        let named = |authority: &str| {
            let name = without_port(authority).to_ascii_lowercase();
            self.names.contains(&name)
        };
        host.is_some_and(|host| authority.eq_ignore_ascii_case(host))
            || std::str::from_utf8(authority).is_ok_and(named)
    }
}

/// `name:80` and `[::1]:80` without what follows the last colon outside brackets.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => authority,
    }
}

fn is_loopback(name: &str) -> bool {
    let bracketed = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    match bracketed {
        Some(address) => address == "::1" || address.parse() == Ok(Ipv6Addr::LOCALHOST),
        None => name
            .parse()
            .is_ok_and(|address: IpAddr| address.is_ipv4() && address.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        visitors: &Visitors,
        host: &str,
        origin: Option<&str>,
        acts: bool,
    ) -> Result<(), Denied> {
        visitors.check(Some(host.as_bytes()), origin.map(str::as_bytes), acts)
    }

    #[test]
    fn on_loopback_only_its_own_names_and_the_listed_ones_are_known() {
        let visitors = Visitors::new(true, false, &["Box.Example".to_owned()]);
        for host in [
            "localhost",
            "LOCALHOST:8000",
            "127.0.0.1:3000",
            "127.9.8.7",
            "[::1]",
            "[::1]:3000",
            "[0:0:0:0:0:0:0:1]:1",
            "box.example",
            "BOX.example:443",
        ] {
            assert_eq!(check(&visitors, host, None, true), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "128.0.0.1",
            "0.0.0.0:8000",
            "[::2]:3000",
            "::1",
            "",
            "localhost:",
            "localhost:80:80",
            "box.example.org",
            "user@localhost",
            "localhost\u{e9}",
        ] {
            let denied = check(&visitors, host, None, false);
            assert_eq!(denied, Err(Denied::ForeignHost), "{host}");
        }
        // Not from a browser.
        assert_eq!(visitors.check(None, None, true), Ok(()));
    }

    #[test]
    fn names_are_asked_for_where_a_foreign_one_means_a_trick() {
        let foreign = |visitors: Visitors| check(&visitors, "api.example", None, true).is_err();
        assert!(foreign(Visitors::new(true, false, &[])));
        assert!(!foreign(Visitors::new(true, true, &[])));
        assert!(!foreign(Visitors::new(false, false, &[])));
        assert!(foreign(Visitors::new(
            false,
            false,
            &["a.example".to_owned()]
        )));
        assert!(foreign(Visitors::new(
            true,
            true,
            &["a.example".to_owned()]
        )));
        assert!(!foreign(Visitors::anybody()));
    }

    #[test]
    fn other_sites_may_look_where_their_browser_lets_them_but_not_act() {
        let open = Visitors::new(true, false, &["box.example".to_owned()]);
        let host = "localhost:3000";
        for (origin, acts, passes) in [
            (None, true, true),
            (Some("http://localhost:3000"), true, true),
            (Some("https://box.example"), true, true),
            (Some("http://localhost:3001"), true, false),
            (Some("http://localhost"), true, false),
            (Some("https://evil.example"), true, false),
            (Some("https://evil.example"), false, true),
            (Some("null"), true, false),
            (Some("localhost:3000"), true, false),
        ] {
            let passed = check(&open, host, origin, acts).is_ok();
            assert_eq!(passed, passes, "{origin:?} {acts}");
        }
        let keys = Visitors::new(false, true, &[]);
        assert_eq!(
            check(&keys, host, Some("https://page.example"), true),
            Ok(())
        );
    }
}
