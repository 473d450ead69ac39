//! A range of addresses, as administrators write it: `10.0.0.0/8`, or one address alone.

use std::net::IpAddr;
use std::str::FromStr;

/// The addresses whose first `prefix` bits are those of `address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// The text is no address and no range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an address such as 10.0.0.7, or a range such as 10.0.0.0/8")]
pub struct NotANetwork;

impl Network {
    /// Whether an address lies in it. An IPv4 address written as IPv6 is the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same(u128::from(own.to_bits()) << 96, u128::from(other.to_bits()) << 96, self.prefix),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.to_bits(), other.to_bits(), self.prefix),
            _ => false,
        }
    }

    /// What one customer of a network provider has: an IPv4 address, or a whole /64 of IPv6 whose addresses count as one.
    pub fn customer(address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
            address => address,
        }
    }
}

fn same(one: u128, other: u128, bits: u8) -> bool {
    (one ^ other).checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = NotANetwork;
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                (address, Some(prefix.parse::<u8>().map_err(|_| NotANetwork)?))
            }
            Some(_) => return Err(NotANetwork),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(longest);
        if prefix > longest { Err(NotANetwork) } else { Ok(Network { address, prefix }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_begins_like_them() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("127.0.0.1", "::ffff:127.0.0.1", "::1"),
            ("0.0.0.0/0", "8.8.8.8", "::"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "1::2", "1.2.3.4"),
            ("192.168.1.128/25", "192.168.1.200", "192.168.1.127"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()) && !network.contains(outside.parse().unwrap()), "{network:?}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0", "::/129", "example.com", "10.0.0.0/8/8"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
