//! Where calls and looks may go. Asked of the address that is really dialled, after the name was resolved, so that no name can
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
        "{0} is on this machine or a private network, which is out of reach here unless the configuration says `allow_private = true` (in `[agents]` for agents from the API, in `[until]` for conditions)"
    )]
    Private(IpAddr),
}

impl Reach {
    pub fn check(self, ip: IpAddr) -> Result<(), Forbidden> {
        let kinds = embedded(ip).into_iter().map(kind);
        // Of several addresses in one, the worst counts.
        match kinds.max().unwrap_or(Kind::Unspecific) {
            Kind::LinkLocal => Err(Forbidden::LinkLocal(ip)),
            Kind::Unspecific => Err(Forbidden::Unspecific(ip)),
            Kind::Private if self == Reach::Public => Err(Forbidden::Private(ip)),
            Kind::Private | Kind::Public => Ok(()),
        }
    }

    /// The addresses of a name, or of itself, that may be reached. If there are others only, that is the error.
    pub async fn resolve(self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        let mut refused = None;
        let allowed: Vec<SocketAddr> = found
            .into_iter()
            .filter(|address| match self.check(address.ip()) {
                Ok(()) => true,
                Err(forbidden) => {
                    refused = Some(forbidden);
                    false
                }
            })
            .collect();
        match (allowed.is_empty(), refused) {
            (true, Some(forbidden)) => Err(io::Error::new(io::ErrorKind::PermissionDenied, forbidden)),
            _ => Ok(allowed),
        }
    }
}

/// The worse, the later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Public,
    Private,
    Unspecific,
    LinkLocal,
}

/// Metadata services of clouds that are not link-local.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
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
                // What leads from IPv4 into tunnels.
                () if v4.octets()[..3] == [192, 88, 99] => Kind::Private,
                () => Kind::Public,
            }
        }
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            match () {
                () if first & 0xffc0 == 0xfe80 || v6 == METADATA_V6 => Kind::LinkLocal,
                () if v6.is_multicast() => Kind::Unspecific,
                // What is for documents only, and Teredo, which nobody offers any more.
                () if matches!(v6.segments(), [0x2001, 0 | 0xdb8, ..]) || first & 0xfff0 == 0x3ff0 => Kind::Private,
                // Only these are given to anybody on the Internet.
                () if first & 0xe000 == 0x2000 => Kind::Public,
                () => Kind::Private,
            }
        }
    }
}

/// The addresses that one stands for: IPv4 in IPv6, mapped, translated (SIIT, NAT64) or tunnelled (6to4, Teredo, ISATAP).
/// Where the prefix is nobody's but the network's own, or the tunnel's, it counts as well.
fn embedded(ip: IpAddr) -> Vec<IpAddr> {
    let IpAddr::V6(v6) = ip else { return vec![ip] };
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => vec![v4(high, low)],
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => vec![v4(high, low)],
        [0x64, 0xff9b, 1, .., high, low] => vec![ip, v4(high, low)],
        [0x2002, high, low, ..] => vec![v4(high, low)],
        [0x2001, 0, server, of_server, .., high, low] => vec![ip, v4(server, of_server), v4(!high, !low)],
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => vec![ip, v4(high, low)],
        _ => vec![ip],
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
        Box::pin(async move { reach.resolve(name.as_str(), 0).await.map(Vec::into_iter) })
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
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "::ffff:0:169.254.169.254",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:ffff::a9fe:a9fe",
            // Teredo: the server, and the client with all bits turned over.
            "2001:0:a9fe:a9fe::1",
            "2001:0:101:101::1",
            "2001:0:101:101:0:0:5601:5601",
            "2606:4700::5efe:a9fe:a9fe",
            "2606:4700::200:5efe:a9fe:a9fe",
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
            "::ffff:0:127.0.0.1",
            "64:ff9b:1::7f00:1",
            "64:ff9b:1::101:101",
            "2001:0:101:101:0:0:fefe:fefe",
            "2001:0:101:101:0:0:80ff:fffe",
            "2002:a00:1::1",
            "2606:4700::5efe:10.0.0.1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "192.88.99.1",
            "192.0.0.8",
        ] {
            assert!(verdict(Reach::Private, private) && !verdict(Reach::Public, private), "{private}");
        }
        for public in [
            "1.1.1.1",
            "172.32.0.1",
            "172.15.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "100.128.0.1",
            "::ffff:0:1.1.1.1",
            "2002:101:101::1",
        ] {
            assert!(verdict(Reach::Public, public), "{public}");
        }
    }
}
