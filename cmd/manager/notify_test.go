package main

import (
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
