// Package retry says when a controller tries or looks again. It is pure.
package retry

import "time"

// First is how long after its first denial a request is made again.
const First = time.Second

// Next returns how long until a denied request is made again: last is how long it was before, 0 the first
// time. It is twice as long each time, and never longer than most.
func Next(last, most time.Duration) time.Duration { return min(max(First, 2*last), most) }

// Sooner returns the shorter of two delays, of which 0 means none.
func Sooner(a, b time.Duration) time.Duration {
	if b > 0 && (a == 0 || b < a) {
		return b
	}
	return a
}
