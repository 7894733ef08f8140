package cluster

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/topsops/gcu-operator/test/cluster/internal/process"
)

// KillComponent kills a component of the control plane, like a crash.
func (s *State) KillComponent(name string) error {
	return s.onComponent(name, func(r *process.Record) error { return process.Kill(*r, stopGrace) })
}

// StartComponent starts a component that has died again, with its old data. It does not
// wait until the component is healthy.
func (s *State) StartComponent(name string) error {
	return s.onComponent(name, func(r *process.Record) error {
		p, err := process.Again(*r)
		if err != nil {
			return err
		}
		*r = p.Record
		return s.save()
	})
}

// FreezeComponent suspends a component until ThawComponent.
func (s *State) FreezeComponent(name string) error {
	return s.onComponent(name, func(r *process.Record) error { return process.Signal(*r, syscall.SIGSTOP) })
}

// ThawComponent resumes a frozen component.
func (s *State) ThawComponent(name string) error {
	return s.onComponent(name, func(r *process.Record) error { return process.Signal(*r, syscall.SIGCONT) })
}

func (s *State) onComponent(name string, act func(*process.Record) error) error {
	i := slices.IndexFunc(s.Processes, func(r process.Record) bool { return r.Name == name })
	if i < 0 {
		var names []string
		for _, r := range s.Processes {
			names = append(names, r.Name)
		}
		return fmt.Errorf("%s is no component of the cluster in %s; these are: %s", name, s.layout.Dir, strings.Join(names, ", "))
	}
	return act(&s.Processes[i])
}
