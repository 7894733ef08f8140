package guard

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Address parses the address to listen on over TCP, "ip:port" or "localhost:port". An
// address other than loopback is an error unless secured, that is, unless the endpoint
// requires a token and uses TLS.
func Address(address string, secured bool) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not ip:port, for example 127.0.0.1:10267", address)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q has no port from 0 to 65535", address)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() && !secured {
		return netip.AddrPort{}, fmt.Errorf("%q is not a loopback address: any other needs --ota-auth=token, --ota-tls-cert-file and --ota-tls-key-file", address)
	}
	return netip.AddrPortFrom(ip, uint16(number)), nil
}

// Hosts returns a function that reports whether a Host header names an endpoint bound to
// the given address: localhost, any loopback address, the bound address (any IP address if
// it is unspecified), or one of names. Other names are rejected because DNS rebinding uses
// them to let a web page reach a local address.
func Hosts(bound netip.Addr, names ...string) func(host string) bool {
	return func(header string) bool {
		host := header
		if name, _, err := net.SplitHostPort(header); err == nil {
			host = name
		}
		if host == "localhost" {
			return true
		}
		for _, name := range names {
			if host == name {
				return true
			}
		}
		ip, err := netip.ParseAddr(trimBrackets(host))
		return err == nil && (ip.IsLoopback() || ip == bound || bound.IsUnspecified())
	}
}

// trimBrackets removes the brackets of an IPv6 address without a port.
func trimBrackets(host string) string {
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		return host[1 : n-1]
	}
	return host
}
