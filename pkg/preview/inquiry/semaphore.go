package inquiry

import "context"

// Semaphore lets one prediction at a time be computed in a process: each is expensive for a large fleet.
type Semaphore chan struct{}

// NewSemaphore returns a Semaphore that nobody has acquired.
func NewSemaphore() Semaphore { return make(Semaphore, 1) }

// Acquire waits until no one else has the semaphore, and returns the function that releases it; or the error of
// ctx, when that is done first.
func (s Semaphore) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
