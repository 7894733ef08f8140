package inquiry

import "context"

// Semaphore limits those who share it to one prediction at a time: each is expensive for a large fleet.
type Semaphore chan struct{}

// NewSemaphore returns a Semaphore that is free.
func NewSemaphore() Semaphore { return make(Semaphore, 1) }

// Acquire waits until the semaphore is free, and returns the function that releases it; or the error of
// ctx, if that is done first.
func (s Semaphore) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
