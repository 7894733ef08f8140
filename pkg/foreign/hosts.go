// Package foreign recognizes requests that reach an endpoint under a name that is not its own: the node's
// endpoint (package ota) and the REST API (package upgradeapi) share the rule.
package foreign

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

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
		if strings.EqualFold(host, "localhost") || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(host, name) }) {
			return true
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
