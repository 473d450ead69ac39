//! Which addresses the service may ever connect to. Checked after the name was resolved, on the very address that is
//! connected to.
//!
//! Private addresses are allowed: a studio's servers stand on its own network. Never reached are the machine's own
//! neighbourhood (link-local) and the metadata services of clouds, which hand out credentials to whoever asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the administrator and the request allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    /// This machine itself may be called.
    pub(super) allow_loopback: bool,
    /// Nothing outside the local network may be called: the request is not encrypted.
    pub(super) only_private: bool,
}

/// Why an address is not connected to. Shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Forbidden {
    #[error("it is this machine itself (an administrator can allow that with `outbound.allow_loopback`)")]
    Loopback,
    #[error("it is a link-local address")]
    LinkLocal,
    #[error("it belongs to a cloud's metadata service")]
    Metadata,
    #[error("it is no address of one machine")]
    Special,
    #[error("plain http is sent to private addresses only; use https")]
    NotPrivate,
}

impl Policy {
    pub(super) fn check(self, address: IpAddr) -> Result<(), Forbidden> {
        match address {
            IpAddr::V4(address) => self.check_v4(address),
            IpAddr::V6(address) => self.check_v6(address),
        }
    }

    fn check_v4(self, address: Ipv4Addr) -> Result<(), Forbidden> {
        const METADATA: [Ipv4Addr; 4] = [
            Ipv4Addr::new(169, 254, 169, 254),
            Ipv4Addr::new(100, 100, 100, 200),
            Ipv4Addr::new(168, 63, 129, 16),
            Ipv4Addr::new(192, 0, 0, 192),
        ];
        let octets = address.octets();
        if METADATA.contains(&address) {
            return Err(Forbidden::Metadata);
        }
        if address.is_link_local() {
            return Err(Forbidden::LinkLocal);
        }
        if address.is_loopback() {
            return if self.allow_loopback { Ok(()) } else { Err(Forbidden::Loopback) };
        }
        // "This network" (0.0.0.0 connects to this machine), protocol assignments, multicast, reserved and broadcast.
        if octets[0] == 0 || octets[..3] == [192, 0, 0] || octets[0] >= 224 {
            return Err(Forbidden::Special);
        }
        let is_shared = octets[0] == 100 && octets[1] & 0xc0 == 64;
        if self.only_private && !address.is_private() && !is_shared {
            return Err(Forbidden::NotPrivate);
        }
        Ok(())
    }

    fn check_v6(self, address: Ipv6Addr) -> Result<(), Forbidden> {
        let segments = address.segments();
        let last = embedded(segments[6], segments[7]);
        if address == Ipv6Addr::LOCALHOST {
            return if self.allow_loopback { Ok(()) } else { Err(Forbidden::Loopback) };
        }
        match segments {
            // IPv4 in another dress is judged as IPv4: mapped, translated, NAT64, 6to4.
            [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => self.check_v4(last),
            [0x2002, high, low, ..] => self.check_v4(embedded(high, low)),
            // Unspecified and IPv4-compatible; local NAT64, where the place of the IPv4 address is not known; Teredo.
            [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => Err(Forbidden::Special),
            // Amazon's and Google's.
            [0xfd00, 0xec2, ..] | [0xfd20, 0xce, ..] => Err(Forbidden::Metadata),
            [first, ..] if first & 0xffc0 == 0xfe80 || first & 0xffc0 == 0xfec0 => Err(Forbidden::LinkLocal),
            [first, ..] if first & 0xff00 == 0xff00 => Err(Forbidden::Special),
            [first, ..] if self.only_private && first & 0xfe00 != 0xfc00 => Err(Forbidden::NotPrivate),
            _ => Ok(()),
        }
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Policy = Policy { allow_loopback: false, only_private: false };
    const LOOPBACK: Policy = Policy { allow_loopback: true, only_private: false };
    const PLAIN: Policy = Policy { allow_loopback: false, only_private: true };

    fn check(policy: Policy, address: &str) -> Result<(), Forbidden> {
        policy.check(address.parse().unwrap())
    }

    #[test]
    fn the_table_of_addresses() {
        use Forbidden::{LinkLocal, Loopback, Metadata, NotPrivate, Special};
        type Verdict = Result<(), Forbidden>;
        // address, as is, with loopback allowed, for plain http
        let table: &[(&str, Verdict, Verdict, Verdict)] = &[
            ("8.8.8.8", Ok(()), Ok(()), Err(NotPrivate)),
            ("10.1.2.3", Ok(()), Ok(()), Ok(())),
            ("172.16.0.1", Ok(()), Ok(()), Ok(())),
            ("172.32.0.1", Ok(()), Ok(()), Err(NotPrivate)),
            ("192.168.1.1", Ok(()), Ok(()), Ok(())),
            ("100.64.0.1", Ok(()), Ok(()), Ok(())),
            ("100.128.0.1", Ok(()), Ok(()), Err(NotPrivate)),
            ("127.0.0.1", Err(Loopback), Ok(()), Err(Loopback)),
            ("127.255.255.254", Err(Loopback), Ok(()), Err(Loopback)),
            ("0.0.0.0", Err(Special), Err(Special), Err(Special)),
            ("0.1.2.3", Err(Special), Err(Special), Err(Special)),
            ("169.254.169.254", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("169.254.0.1", Err(LinkLocal), Err(LinkLocal), Err(LinkLocal)),
            ("100.100.100.200", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("168.63.129.16", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("192.0.0.192", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("192.0.0.8", Err(Special), Err(Special), Err(Special)),
            ("224.0.0.1", Err(Special), Err(Special), Err(Special)),
            ("240.0.0.1", Err(Special), Err(Special), Err(Special)),
            ("255.255.255.255", Err(Special), Err(Special), Err(Special)),
            ("2606:4700::1111", Ok(()), Ok(()), Err(NotPrivate)),
            ("fd12:3456::1", Ok(()), Ok(()), Ok(())),
            ("fc00::1", Ok(()), Ok(()), Ok(())),
            ("::", Err(Special), Err(Special), Err(Special)),
            ("::1", Err(Loopback), Ok(()), Err(Loopback)),
            ("::127.0.0.1", Err(Special), Err(Special), Err(Special)),
            ("::ffff:127.0.0.1", Err(Loopback), Ok(()), Err(Loopback)),
            ("::ffff:169.254.169.254", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("::ffff:10.0.0.1", Ok(()), Ok(()), Ok(())),
            ("::ffff:8.8.8.8", Ok(()), Ok(()), Err(NotPrivate)),
            ("::ffff:0:169.254.169.254", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("64:ff9b::a9fe:a9fe", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("64:ff9b::7f00:1", Err(Loopback), Ok(()), Err(Loopback)),
            ("64:ff9b::8.8.8.8", Ok(()), Ok(()), Err(NotPrivate)),
            ("64:ff9b:1::a00:1", Err(Special), Err(Special), Err(Special)),
            ("2002:a9fe:a9fe::1", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("2002:7f00:1::", Err(Loopback), Ok(()), Err(Loopback)),
            ("2002:808:808::1", Ok(()), Ok(()), Err(NotPrivate)),
            ("2001:0:4136:e378::1", Err(Special), Err(Special), Err(Special)),
            ("fe80::1", Err(LinkLocal), Err(LinkLocal), Err(LinkLocal)),
            ("febf::1", Err(LinkLocal), Err(LinkLocal), Err(LinkLocal)),
            ("fec0::1", Err(LinkLocal), Err(LinkLocal), Err(LinkLocal)),
            ("fd00:ec2::254", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("fd20:ce::254", Err(Metadata), Err(Metadata), Err(Metadata)),
            ("ff02::1", Err(Special), Err(Special), Err(Special)),
        ];
        for (address, strict, loopback, plain) in table {
            assert_eq!(check(STRICT, address), *strict, "{address}");
            assert_eq!(check(LOOPBACK, address), *loopback, "{address} with loopback");
            assert_eq!(check(PLAIN, address), *plain, "{address} for plain http");
        }
    }
}
