package hostagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
)

// reads bounds reads of the host that nothing can interrupt: the kernel may keep one for ever, because a driver blocks the
// process that is looked at, or a disk does not respond. Such a read is left to itself, and is not begun again before it has ended.
type reads struct {
	limit    time.Duration
	underWay singleflight.Group
}

// within returns the result of a read. It returns an error if there is none within the limit, or when ctx is done. A read that
// is in progress under the same name is joined; what it returns after the limit is too old to be used.
func within[T any](ctx context.Context, r *reads, name string, read func() (T, error)) (T, error) {
	limited := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("no response after %s: the kernel keeps the read, ps shows processes that hang in state D", r.limit))
	}
	underWay := r.underWay.DoChan(name, func() (any, error) {
		fresh, cancel := limited(context.WithoutCancel(ctx))
		defer cancel()
		value, err := read()
		return value, errors.Join(err, context.Cause(fresh))
	})
	waiting, cancel := limited(ctx)
	defer cancel()
	var none T
	select {
	case result := <-underWay:
		if result.Err != nil {
			return none, result.Err
		}
		return result.Val.(T), nil
	case <-waiting.Done():
		return none, context.Cause(waiting)
	}
}
