package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestNotifyFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		err  string
	}{
		{nil, ""},
		{[]string{"--notify-url=https://example.com/hook", "--notify-secret-file=/secret", "--notify-ca-file=/ca"}, ""},
		{[]string{"--notify-url=https://example.com/hook"}, "needs --notify-secret-file"},
		{[]string{"--notify-secret-file=/secret"}, "are for --notify-url"},
		{[]string{"--notify-ca-file=/ca"}, "are for --notify-url"},
	} {
		var o options
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.bindFlags(flags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(); (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: %v, want %q", tt.args, err, tt.err)
		}
	}
}

// The image of the manager has no files but its own, and a webhook may be a public one.
func TestAPublicWebhookIsTrustedWhereTheSystemHasNoCAs(t *testing.T) {
	if os.Getenv("SSL_CERT_FILE") != "/none" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), "SSL_CERT_FILE=/none", "SSL_CERT_DIR=/none")
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	if roots, err := x509.SystemCertPool(); err != nil || roots.Equal(x509.NewCertPool()) {
		t.Errorf("there is no CA: %v", err)
	}
}
