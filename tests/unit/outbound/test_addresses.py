"""Addresses: what is public may be connected to, everything else only where an operator permits it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis.strategies import integers, ip_addresses

from pipeline.outbound.addresses import is_public, may_connect, parse_networks

PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.1", "223.255.255.255"]
PUBLIC += ["169.253.255.255", "2606:4700::1111", "2a00:1450:4001::1", "64:ff9b::808:808", "::ffff:8.8.8.8"]

PRIVATE = [
    ("0.0.0.0", "this host"),
    ("10.1.2.3", "private"),
    ("100.64.0.1", "shared by carriers"),
    ("100.100.100.200", "metadata"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("168.63.129.16", "host agent"),
    ("169.254.169.254", "metadata"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.192", "metadata"),
    ("192.0.2.1", "documentation"),
    ("192.88.99.1", "6to4 relay"),
    ("192.168.0.1", "private"),
    ("198.19.0.1", "benchmarks"),
    ("203.0.113.9", "documentation"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("255.255.255.255", "broadcast"),
    ("::", "this host"),
    ("::1", "loopback"),
    ("::127.0.0.1", "IPv4-compatible"),
    ("::ffff:127.0.0.1", "mapped loopback"),
    ("::ffff:7f00:1", "mapped loopback"),
    ("::ffff:a9fe:a9fe", "mapped metadata"),
    ("::ffff:0:7f00:1", "translated loopback"),
    ("64:ff9b::7f00:1", "NAT64 loopback"),
    ("64:ff9b::a9fe:a9fe", "NAT64 metadata"),
    ("64:ff9b:1::808:808", "local NAT64"),
    ("100::1", "discard"),
    ("2001::1", "Teredo"),
    ("2001:2::1", "benchmarks"),
    ("2001:20::1", "ORCHID"),
    ("2001:db8::1", "documentation"),
    ("2002:7f00:1::", "6to4 loopback"),
    ("2002:808:808::1", "6to4"),
    ("3fff::1", "documentation"),
    ("5f00::1", "segment routing"),
    ("fc00::1", "private"),
    ("fd00:ec2::254", "metadata"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local with a zone"),
    ("2606:4700::1111%eth0", "a zone"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
]

NO_ADDRESSES = [
    "",
    "localhost",
    "example.com",
    "127.1",
    "0177.0.0.1",
    "2130706433",
    "0x7f000001",
    "1.2.3.4.5",
    " 8.8.8.8",
]


class DescribePublicAddresses:
    @pytest.mark.parametrize("address", PUBLIC)
    def it_is_public(self, address):
        assert is_public(address)

    @pytest.mark.parametrize(("address", "what"), PRIVATE)
    def it_is_not_public(self, address, what):
        assert not is_public(address)

    @pytest.mark.parametrize("text", NO_ADDRESSES)
    def it_takes_nothing_that_is_written_unusually(self, text):
        assert not is_public(text)
        assert not may_connect(text, permitted=parse_networks("0.0.0.0/0, ::/0"))

    @given(ip_addresses(v=4))
    def it_sees_through_what_embeds_an_address(self, address: IPv4Address):
        number = int(address)
        assert is_public(IPv6Address((0xFFFF << 32) + number)) == is_public(address)
        assert is_public(IPv6Address((0x64FF9B << 96) + number)) == is_public(address)

    @given(ip_addresses(v=4))
    def it_lets_nothing_through_that_the_standard_library_knows_to_be_local(self, address: IPv4Address):
        local = address.is_private or address.is_loopback or address.is_link_local or address.is_reserved
        if local or address.is_multicast or address.is_unspecified:
            assert not is_public(address)

    @given(integers(min_value=0, max_value=2**128 - 1))
    def it_lets_no_local_ipv6_through_either(self, number: int):
        address = IPv6Address(number)
        if address.is_private or address.is_multicast or address.is_reserved or address.is_site_local:
            assert not is_public(address)


class DescribePermittedNetworks:
    def it_permits_what_the_operator_names_and_no_more(self):
        permitted = parse_networks("127.0.0.0/8, fd00::/8")
        assert may_connect("127.0.0.1", permitted=permitted)
        assert may_connect("::ffff:127.0.0.1", permitted=permitted)
        assert may_connect("fd00::1", permitted=permitted)
        assert may_connect("8.8.8.8", permitted=permitted)
        assert not may_connect("10.0.0.1", permitted=permitted)
        assert not may_connect("127.0.0.1")

    def it_reads_no_networks_out_of_nothing(self):
        assert parse_networks(" , ") == ()

    @pytest.mark.parametrize("text", ["10.0.0.1/8", "everything", "10.0.0.0/8 fd00::/8"])
    def it_names_what_is_no_network(self, text):
        with pytest.raises(ValueError, match="is not a network"):
            parse_networks(text)
