package guard

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Address parses the address that TCP binds to, "ip:port" or "localhost:port".
// Anything but loopback is an error unless secured: the caller shows a token, over
// TLS.
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

// Hosts tells which Host headers mean an endpoint at a bound address: localhost and
// loopback addresses, the address itself, every address when it is bound to all,
// and names. A name that is not listed is how a page reaches an address that its
// browser would not let it reach.
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

// trimBrackets takes the brackets off an IPv6 address without a port.
func trimBrackets(host string) string {
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		return host[1 : n-1]
	}
	return host
}
