package main

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestLogDir(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"contract 55: the file is on the host under /var/log/topscloud/gcu-operator unless told otherwise", nil, "/var/log/topscloud/gcu-operator/gcu-operator.log"},
		{"another directory keeps the name of the file", []string{"--log-dir", "/tmp/logs/"}, "/tmp/logs/gcu-operator.log"},
		{"no directory means no file", []string{"--log-dir="}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var o options
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.bindFlags(flags)
			if err := flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if got := o.loggingOptions().File; got != tt.want {
				t.Errorf("the log file is %q, want %q", got, tt.want)
			}
		})
	}
}
