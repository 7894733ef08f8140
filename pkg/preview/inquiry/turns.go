package inquiry

import "context"

// Turns lets one prediction at a time be computed in a process: each is expensive for a large fleet.
type Turns chan struct{}

// NewTurns returns Turns of which none is taken.
func NewTurns() Turns { return make(Turns, 1) }

// Take waits for a turn, and returns the function that ends it; or the error of ctx, when that is done first.
func (t Turns) Take(ctx context.Context) (release func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
