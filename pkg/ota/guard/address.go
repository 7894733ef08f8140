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
