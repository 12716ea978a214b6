//! Where calls may go. Asked of the address that is really dialled, after the name was resolved, so that no name can
//! lead elsewhere than it seemed to.

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    task::{Context, Poll},
    vec,
};
use tower::Service;

/// What may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Also this machine and its private networks.
    Private,
    /// Only what anybody on the Internet can reach.
    Public,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    #[error("{0} is a link-local address, where machines keep their credentials; nothing there is ever called")]
    LinkLocal(IpAddr),
    #[error("{0} is not an address of one machine")]
    Unspecific(IpAddr),
    #[error(
        "{0} is on this machine or a private network; agents from the API reach those only with `agents.allow_private = true`"
    )]
    Private(IpAddr),
}

impl Reach {
    pub fn check(self, ip: IpAddr) -> Result<(), Forbidden> {
        let real = embedded(ip);
        match kind(real) {
            Kind::LinkLocal => Err(Forbidden::LinkLocal(ip)),
            Kind::Unspecific => Err(Forbidden::Unspecific(ip)),
            Kind::Private if self == Reach::Public => Err(Forbidden::Private(ip)),
            Kind::Private | Kind::Public => Ok(()),
        }
    }
}

enum Kind {
    LinkLocal,
    Unspecific,
    Private,
    Public,
}

/// Metadata services of clouds that are not link-local.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

fn kind(ip: IpAddr) -> Kind {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            match () {
                () if v4.is_link_local() || METADATA_V4.contains(&v4) => Kind::LinkLocal,
                () if v4.is_multicast() || v4.is_broadcast() || a >= 240 => Kind::Unspecific,
                // 0.0.0.0 is this machine to most systems.
                () if v4.is_loopback() || v4.is_private() || a == 0 => Kind::Private,
                // Carriers' networks, and what is for tests and benchmarks.
                () if (a == 100 && (64..128).contains(&b)) || v4.is_documentation() => Kind::Private,
                () if (a == 198 && (b == 18 || b == 19)) || (a, b) == (192, 0) => Kind::Private,
                () => Kind::Public,
            }
        }
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            match () {
                () if first & 0xffc0 == 0xfe80 || v6 == METADATA_V6 => Kind::LinkLocal,
                () if v6.is_multicast() => Kind::Unspecific,
                () if v6.is_loopback() || v6.is_unspecified() => Kind::Private,
                () if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Kind::Private,
                () => Kind::Public,
            }
        }
    }
}

/// The IPv4 address that an IPv6 address stands for: mapped, translated (NAT64) or tunnelled (6to4).
fn embedded(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    let s = v6.segments();
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => ip,
    }
}

/// Resolves names, and lets through only addresses that may be reached.
#[derive(Clone, Copy, Debug)]
pub struct Resolver(pub Reach);

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let reach = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let mut refused = None;
            let allowed: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| match reach.check(address.ip()) {
                    Ok(()) => true,
                    Err(forbidden) => {
                        refused = Some(forbidden);
                        false
                    }
                })
                .collect();
            match (allowed.is_empty(), refused) {
                (true, Some(forbidden)) => Err(io::Error::new(io::ErrorKind::PermissionDenied, forbidden)),
                _ => Ok(allowed.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disguise_is_seen_through() {
        let verdict = |reach: Reach, text: &str| reach.check(text.parse().expect("an address")).is_ok();
        for never in [
            "169.254.169.254",
            "fe80::1",
            "febf::1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "100.100.100.200",
            "fd00:ec2::254",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            "240.0.0.1",
            "::169.254.169.254",
        ] {
            assert!(!verdict(Reach::Private, never) && !verdict(Reach::Public, never), "{never}");
        }
        for private in [
            "127.0.0.1",
            "127.8.8.8",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "::1",
            "::",
            "fc00::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "fec0::1",
        ] {
            assert!(verdict(Reach::Private, private) && !verdict(Reach::Public, private), "{private}");
        }
        for public in ["1.1.1.1", "172.32.0.1", "172.15.0.1", "2606:4700::1111", "64:ff9b::101:101", "100.128.0.1"] {
            assert!(verdict(Reach::Public, public), "{public}");
        }
    }
}
