package request

import "testing"

func TestTheWorstEndOfAPartIsTheEndOfTheOperation(t *testing.T) {
	for name, test := range map[string]struct {
		states []State
		want   State
	}{
		"nothing to do":                 {nil, Done},
		"all are done":                  {[]State{Done, Done}, Done},
		"one failed":                    {[]State{Done, Failed, Dropped}, Failed},
		"one was dropped":               {[]State{Done, Dropped}, Dropped},
		"one runs":                      {[]State{Failed, Running, Waiting}, Running},
		"one waits when others are not": {[]State{Done, Waiting}, Waiting},
	} {
		o := Operation{}
		for _, s := range test.states {
			o.Parts = append(o.Parts, Part{State: s})
		}
		if got := o.State(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
