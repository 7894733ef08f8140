package nodeupgrade

import (
	"context"
	"errors"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/topsops/gcu-operator/pkg/drain"
)

var errKilled = errors.New("the process is dead")

// connection stands between the controller and the API server, and can fail writes.
type connection struct {
	writes  []string
	deleted map[types.UID]int
	// killAfter is the number of writes after which the process dies; 0: never.
	killAfter int
	dead      bool
	// before runs before a write and may fail it; nil lets it pass.
	before func(what string) error
	// between runs before every request.
	between func()
}

// request lets something happen before a request; it fails when the process is dead.
func (l *connection) request() error {
	if l.between != nil {
		l.between()
	}
	if l.dead {
		return errKilled
	}
	return nil
}

// write makes a write, unless the process is dead.
func (l *connection) write(what string, send func() error) error {
	if err := l.request(); err != nil {
		return err
	}
	if l.before != nil {
		if err := l.before(what); err != nil {
			return err
		}
	}
	if err := send(); err != nil {
		return err
	}
	l.writes = append(l.writes, what)
	if l.killAfter > 0 && len(l.writes) == l.killAfter {
		l.dead = true
		return errKilled
	}
	return nil
}

func (l *connection) client(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := l.request(); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := l.request(); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return l.write(fmt.Sprintf("patch %T %s", o, o.GetName()), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return l.write(fmt.Sprintf("patch %s of %T %s", sub, o, o.GetName()), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			options := client.DeleteOptions{}
			options.ApplyOptions(opts)
			return l.write(fmt.Sprintf("delete %T %s", o, o.GetName()), func() error {
				err := c.Delete(ctx, o, opts...)
				if err == nil && options.Preconditions != nil && options.Preconditions.UID != nil {
					l.deleted[*options.Preconditions.UID]++
				}
				return err
			})
		},
	})
}

// lineEvictor puts an Evictor behind the line.
type lineEvictor struct {
	*connection
	drain.Evictor
}

func (e lineEvictor) Evict(ctx context.Context, request *policyv1.Eviction) error {
	what := "evict "
	if len(request.DeleteOptions.DryRun) > 0 {
		what = "would evict "
	}
	return e.write(what+request.Name, func() error { return e.Evictor.Evict(ctx, request) })
}
