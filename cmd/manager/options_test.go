package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestUpgradeAPIFlags(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want upgradeAPIOptions
		file string
		err  string
	}{
		{"contract 61, 69 and 78: port and directories are those of gcu-upgrade-manager", nil,
			upgradeAPIOptions{addr: ":32765", auth: "token", anonymous: "gcu-operator:anonymous", blueprintDir: "/topsdata/dcp/gcu-upgrade-manager/blueprints", logDir: "/topsdata/dcp/gcu-upgrade-manager/op-log"},
			"/topsdata/dcp/gcu-upgrade-manager/op-log/gcu-upgrade-manager.log", ""},
		{"everything can be another", []string{"--upgrade-api-bind-address=127.0.0.1:1", "--upgrade-api-auth=none", "--blueprint-dir=/b", "--upgrade-api-log-dir=", "--upgrade-api-hosts=a,b"},
			upgradeAPIOptions{addr: "127.0.0.1:1", auth: "none", anonymous: "gcu-operator:anonymous", hosts: []string{"a", "b"}, blueprintDir: "/b"}, "", ""},
		{"a mode there is none of", []string{"--upgrade-api-auth=basic"}, upgradeAPIOptions{}, "", `--upgrade-api-auth "basic" is neither token nor none`},
		{"a certificate nobody would see", []string{"--upgrade-api-auth=none", "--upgrade-api-tls-cert-dir=/c"}, upgradeAPIOptions{}, "", "is plain HTTP: leave it out"},
		{"an anonymous user that is the manager", []string{"--upgrade-api-auth=none", "--upgrade-api-anonymous-user=system:serviceaccount:kube-system:gcu-operator"}, upgradeAPIOptions{}, "", "must be a user of its own"},
		{"no address", []string{"--upgrade-api-bind-address="}, upgradeAPIOptions{}, "", "0 turns the REST API off"},
		{"no blueprints", []string{"--blueprint-dir="}, upgradeAPIOptions{}, "", "--blueprint-dir must not be empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var o options
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.bindFlags(flags)
			if err := flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if err := o.validate(); tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("validate: %v, want %q", err, tt.err)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(o.upgradeAPI, tt.want) || o.apiLoggingOptions().File != tt.file {
				t.Errorf("got %+v and file %q", o.upgradeAPI, o.apiLoggingOptions().File)
			}
		})
	}
}

// TestTheOperatorKnowsItsPod: a drain leaves this pod alone.
func TestTheOperatorKnowsItsPod(t *testing.T) {
	t.Setenv("NODE_NAME", "node-1")
	t.Setenv("POD_NAMESPACE", "gcu")
	t.Setenv("POD_NAME", "gcu-operator-1")
	if got := selfFromEnvironment().String(); got != "gcu/gcu-operator-1" {
		t.Errorf("the pod is %s", got)
	}
}

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

func TestTheVersionIsAFlag(t *testing.T) {
	var out strings.Builder
	command := newCommand()
	command.SetOut(&out)
	command.SetArgs([]string{"--version"})
	if err := command.Execute(); err != nil || out.String() != "manager version dev\n" {
		t.Errorf("it says %q, %v", out.String(), err)
	}
}
