//! Who may change a server.
//!
//! Reading is free; what changes something is open on loopback and needs a token beyond it.
//! The rule is one, for every listener of a process, so it lives below all of them and knows
//! headers only as bytes.

use std::fmt;

/// Who may change the server.
#[derive(Clone)]
pub enum Access {
    /// Anyone who can connect, except through another site's page in their browser.
    Open,
    /// Only callers that send this as a bearer token.
    Token(String),
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Token(_) => "Token(..)",
        })
    }
}

/// Why a change was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("This operation requires the control token: `Authorization: Bearer TOKEN`.")]
    Token,
    #[error("This operation is not allowed from a page of another site.")]
    OtherSite,
    #[error(
        "This server does not accept that host name: use localhost or 127.0.0.1, \
         or start it with --allowed-hosts NAME."
    )]
    ForeignHost,
}

impl Denied {
    /// The machine-readable error code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Token => "control_token_required",
            Self::OtherSite => "cross_origin",
            Self::ForeignHost => "foreign_host",
        }
    }
}

impl Access {
    pub fn needs_token(&self) -> bool {
        matches!(self, Self::Token(_))
    }

    /// Whether a request may change the server. `header` finds a header by its name in lower
    /// case.
    pub fn check<'a>(&self, header: impl Fn(&str) -> Option<&'a [u8]>) -> Result<(), Denied> {
        match self {
            Self::Token(token) => {
                let sent = header("authorization").and_then(|value| value.strip_prefix(b"Bearer "));
                match sent {
                    Some(sent) if equal_in_constant_time(sent, token.as_bytes()) => Ok(()),
                    _ => Err(Denied::Token),
                }
            }
            // A browser lets any page post to loopback, but says on whose behalf.
            Self::Open => match header("origin") {
                Some(origin) if !is_own(origin, header("host")) => Err(Denied::OtherSite),
                _ => Ok(()),
            },
        }
    }
}

/// Whether the page that asks came from the host that is asked.
fn is_own(origin: &[u8], host: Option<&[u8]>) -> bool {
    let authority = [b"http://".as_slice(), b"https://"]
        .into_iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    authority.is_some() && authority == host
}

/// Takes the same time wherever the first difference is; only the length can be learned.
pub fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .fold(0, |difference, (l, r)| difference | (l ^ r))
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(access: &Access, headers: &[(&str, &'static str)]) -> Result<(), Denied> {
        access.check(|name| {
            let found = headers.iter().find(|(header, _)| *header == name);
            found.map(|(_, value)| value.as_bytes())
        })
    }

    #[test]
    fn a_token_is_asked_for_and_compared_whole() {
        let access = Access::Token("secret".to_owned());
        assert_eq!(
            check(&access, &[("authorization", "Bearer secret")]),
            Ok(())
        );
        for wrong in [
            "Bearer secre",
            "Bearer secret1",
            "Bearer Secret",
            "secret",
            "Bearer ",
        ] {
            assert_eq!(
                check(&access, &[("authorization", wrong)]),
                Err(Denied::Token),
                "{wrong}"
            );
        }
        assert_eq!(check(&access, &[]), Err(Denied::Token));
    }

    #[test]
    fn without_a_token_only_other_sites_are_kept_out() {
        let host = ("host", "127.0.0.1:3000");
        assert_eq!(check(&Access::Open, &[]), Ok(()));
        assert_eq!(check(&Access::Open, &[host]), Ok(()));
        let own = ("origin", "http://127.0.0.1:3000");
        assert_eq!(check(&Access::Open, &[host, own]), Ok(()));
        for other in [
            "http://127.0.0.1:3001",
            "https://example.org",
            "null",
            "127.0.0.1:3000",
        ] {
            let denied = check(&Access::Open, &[host, ("origin", other)]);
            assert_eq!(denied, Err(Denied::OtherSite), "{other}");
        }
        assert_eq!(check(&Access::Open, &[own]), Err(Denied::OtherSite));
        // A caller that knows the token is not an unwitting page.
        let access = Access::Token("secret".to_owned());
        let sent = ("authorization", "Bearer secret");
        assert_eq!(check(&access, &[sent, ("origin", "http://other")]), Ok(()));
    }

    #[test]
    fn a_token_is_never_shown() {
        assert!(!format!("{:?}", Access::Token("secret".to_owned())).contains("secret"));
    }
}
