package foreign

import (
	"net/netip"
	"testing"
)

func TestHosts(t *testing.T) {
	for _, test := range []struct {
		bound, host string
		want        bool
	}{
		{"127.0.0.1", "127.0.0.1:10267", true},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "localhost:10267", true},
		{"127.0.0.1", "Localhost:10267", true},
		{"127.0.0.1", "[::1]:10267", true},
		{"127.0.0.1", "[::1]", true},
		{"127.0.0.1", "node-a:10267", true},
		{"127.0.0.1", "evil.example:10267", false},
		{"127.0.0.1", "localhost.evil.example", false},
		{"127.0.0.1", "10.1.2.3:10267", false},
		{"127.0.0.1", "", false},
		{"10.1.2.3", "10.1.2.3:10267", true},
		{"10.1.2.3", "10.1.2.4:10267", false},
		{"0.0.0.0", "10.1.2.4:10267", true},
		{"0.0.0.0", "evil.example", false},
	} {
		if got := Hosts(netip.MustParseAddr(test.bound), "node-a")(test.host); got != test.want {
			t.Errorf("bound to %s, Host %q: %t, want %t", test.bound, test.host, got, test.want)
		}
	}
}
