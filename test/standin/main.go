package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/topsops/gcu-operator/test/standin/deviceplugin"
	"github.com/topsops/gcu-operator/test/standin/driver"
	"github.com/topsops/gcu-operator/test/standin/exporter"
	"github.com/topsops/gcu-operator/test/standin/gcu"
	"github.com/topsops/gcu-operator/test/standin/gfd"
	"github.com/topsops/gcu-operator/test/standin/nfd"
	"github.com/topsops/gcu-operator/test/standin/toolkit"
	"github.com/topsops/gcu-operator/test/standin/workload"
)

// settings are the settings in the environment.
type settings struct {
	version, behavior string
	cards             int
	delay, interval   time.Duration
}

// component simulates one component until ctx is done.
type component func(ctx context.Context, s settings, args []string) error

// here is the node as seen by a container to which the runtime or a volume gave the
// cards.
var here = gcu.Node{Root: "/"}

var components = map[string]component{
	"nfd-master": func(ctx context.Context, _ settings, args []string) error {
		return nfd.Master(ctx, os.Getenv("NODE_NAME"), args)
	},
	"nfd-worker": func(ctx context.Context, s settings, args []string) error { return nfd.Worker(ctx, s.interval, args) },
	"driver":     func(ctx context.Context, s settings, _ []string) error { return driverOf(s, "/host").Run(ctx) },
	// Directly on the node, like an administrator.
	"install-driver": func(_ context.Context, s settings, _ []string) error { return driverOf(s, "/").Install() },
	"toolkit": func(ctx context.Context, s settings, _ []string) error {
		return toolkit.Toolkit{Host: "/host", Program: "/usr/bin/enflame-container-runtime", Version: s.version,
			Engine: os.Getenv("RUNTIME"), Delay: s.delay, KeepDefault: s.behavior == "keep-default"}.Run(ctx)
	},
	"device-plugin": func(ctx context.Context, s settings, _ []string) error {
		return deviceplugin.Plugin{Directory: deviceplugin.Directory, Node: here, Cards: s.cards, Interval: s.interval}.Run(ctx)
	},
	"exporter": func(ctx context.Context, _ settings, args []string) error { return exporter.Run(ctx, here, args) },
	"gfd": func(ctx context.Context, s settings, _ []string) error {
		return gfd.Run(ctx, here, gfd.Directory, s.interval)
	},
	"workload": func(ctx context.Context, s settings, _ []string) error { return workload.Run(ctx, here, s.delay) },
}

func driverOf(s settings, host string) driver.Driver {
	return driver.Driver{Node: here, Host: host, Processes: "/proc", Version: s.version, Behavior: driver.Behavior(s.behavior),
		Cards: s.cards, Delay: s.delay, MakeCard: driver.MakeCard, CutNetwork: driver.CutOff}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run simulates the component named by the program's name or its first argument.
func run(ctx context.Context, argv []string) error {
	name, args := filepath.Base(argv[0]), argv[1:]
	if components[name] == nil && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	play := components[name]
	if play == nil {
		return fmt.Errorf("unknown component %q, must be one of: %s", name, strings.Join(slices.Sorted(maps.Keys(components)), ", "))
	}
	s, err := settingsOf(os.Getenv)
	if err != nil {
		return err
	}
	log.SetPrefix(name + ": ")
	return play(ctx, s, args)
}

func settingsOf(env func(string) string) (settings, error) {
	s := settings{version: cmp.Or(env("STANDIN_VERSION"), "1.0.0"), behavior: env("STANDIN_BEHAVIOR")}
	var err error
	if s.cards, err = strconv.Atoi(cmp.Or(env("STANDIN_CARDS"), "2")); err != nil {
		return settings{}, fmt.Errorf("STANDIN_CARDS: %w", err)
	}
	if s.delay, err = time.ParseDuration(cmp.Or(env("STANDIN_DELAY"), "0s")); err != nil {
		return settings{}, fmt.Errorf("STANDIN_DELAY: %w", err)
	}
	if s.interval, err = time.ParseDuration(cmp.Or(env("STANDIN_INTERVAL"), "1s")); err != nil {
		return settings{}, fmt.Errorf("STANDIN_INTERVAL: %w", err)
	}
	return s, nil
}
