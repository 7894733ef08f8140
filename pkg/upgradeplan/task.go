package upgradeplan

import (
	"fmt"
	"strings"
)

// Task is one atomic action on one target on one host: it succeeds or fails as a whole
// (contract statement 91). Its text form, also in JSON, is host_target_action.
type Task struct {
	// Host is the name of the node.
	Host string
	// Target is the component, or the part of the node.
	Target string
	// Action is the action on the target.
	Action string
}

// String returns host_target_action, unchecked; MarshalText checks the names.
func (t Task) String() string { return t.Host + "_" + t.Target + "_" + t.Action }

// ParseTask parses host_target_action. The error says which of the three names is missing or
// has an invalid character.
func ParseTask(s string) (Task, error) {
	parts := strings.Split(s, "_")
	if len(parts) != 3 {
		return Task{}, fmt.Errorf("task %q is not of the form host_target_action", s)
	}
	t := Task{Host: parts[0], Target: parts[1], Action: parts[2]}
	if err := t.Validate(); err != nil {
		return Task{}, err
	}
	return t, nil
}

// Validate returns an error when the text form could not be parsed: a name is empty, or has a
// character other than a letter, a digit, '-' and '.'. Names of nodes and components have no
// others.
func (t Task) Validate() error {
	for _, part := range []struct{ what, name string }{{"host", t.Host}, {"target", t.Target}, {"action", t.Action}} {
		if err := checkName(part.what, part.name); err != nil {
			return fmt.Errorf("task %q: %w", t.String(), err)
		}
	}
	return nil
}

// MarshalText returns String, or the error of Validate.
func (t Task) MarshalText() ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return []byte(t.String()), nil
}

// UnmarshalText is ParseTask.
func (t *Task) UnmarshalText(text []byte) error {
	parsed, err := ParseTask(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("the %s has no name", what)
	}
	for _, r := range name {
		ok := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.'
		if !ok {
			return fmt.Errorf("%s %q may have letters, digits, '-' and '.' only", what, name)
		}
	}
	return nil
}
