package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/topsops/gcu-operator/pkg/transform"
)

// call is one request of an operator.
type call struct {
	// write distinguishes it from a read.
	write bool
	// what is the verb with the object.
	what string
}

// connection is the connection of one operator process to the API server. It counts the calls and
// injects faults.
type connection struct {
	client.WithWatch
	calls []call
	// before fails a call without executing it if it returns an error; after replaces the
	// response of an executed call. n counts calls of the same sort, from 1.
	before, after func(c call, n int) error
	counts        map[bool]int
}

// connect returns a line to an API server without faults.
func connect(to client.WithWatch) *connection {
	l := &connection{counts: map[bool]int{}}
	l.WithWatch = interceptor.NewClient(to, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return l.pass(false, "get", o, key.Name, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return l.pass(false, "list", list, "", func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return l.pass(true, "create", o, o.GetName(), func() error { return c.Create(ctx, o, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return l.pass(true, "apply", o, o.(interface{ GetName() string }).GetName(), func() error { return c.Apply(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			var options client.PatchOptions
			options.ApplyOptions(opts)
			return l.pass(len(options.DryRun) == 0, "patch", o, o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return l.pass(true, "delete", o, o.GetName(), func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return l.pass(true, "patch "+sub, o, o.GetName(), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	return l
}

// cached returns a client that reads what the manager's cache keeps of the objects of another.
func cached(of client.WithWatch) client.WithWatch {
	keep := transform.Trim()
	return interceptor.NewClient(of, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			kind := o.GetObjectKind().GroupVersionKind()
			reflect.ValueOf(o).Elem().SetZero()
			o.GetObjectKind().SetGroupVersionKind(kind)
			if err := c.Get(ctx, key, o, opts...); err != nil {
				return err
			}
			_, err := keep(o)
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := c.List(ctx, list, opts...); err != nil {
				return err
			}
			return meta.EachListItem(list, func(o runtime.Object) error {
				_, err := keep(o)
				return err
			})
		},
	})
}

func (l *connection) pass(write bool, verb string, object any, name string, do func() error) error {
	kind := ""
	switch o := object.(type) {
	case interface{ GetKind() string }:
		kind = o.GetKind()
	case runtime.Object:
		of, err := apiutil.GVKForObject(o, l.Scheme())
		if err != nil {
			return err
		}
		kind = of.Kind
	}
	c := call{write, verb + " " + kind + " " + name}
	l.calls = append(l.calls, c)
	l.counts[write]++
	n := l.counts[write]
	if l.before != nil {
		if err := l.before(c, n); err != nil {
			return err
		}
	}
	err := do()
	if l.after != nil {
		if lost := l.after(c, n); lost != nil {
			return lost
		}
	}
	return err
}

var errKilled = errors.New("the operator was killed")

// killedAfter passes nothing after write n.
func killedAfter(n int) func(*connection) {
	return func(l *connection) {
		dead := false
		l.before = func(c call, _ int) error {
			if dead {
				return errKilled
			}
			return nil
		}
		l.after = func(c call, i int) error {
			if dead = dead || (c.write && i >= n); dead {
				return errKilled
			}
			return nil
		}
	}
}

// answerLost executes write n and reports a timeout.
func answerLost(n int) func(*connection) {
	return func(l *connection) {
		l.after = func(c call, i int) error {
			if c.write && i == n {
				return context.DeadlineExceeded
			}
			return nil
		}
	}
}

// refusesAll fails calls that begin with one of some words.
func refusesAll(err error, words ...string) func(*connection) {
	return func(l *connection) {
		l.before = func(c call, _ int) error {
			for _, w := range words {
				if strings.HasPrefix(c.what, w) {
					return err
				}
			}
			return nil
		}
	}
}

// refuses fails read or write n without executing it.
func refuses(write bool, n int, err error) func(*connection) {
	return func(l *connection) {
		l.before = func(c call, i int) error {
			if c.write == write && i == n {
				return err
			}
			return nil
		}
	}
}

// answer is an error response of an API server.
type answer struct {
	name string
	err  error
}

func answers() []answer {
	things := schema.GroupResource{Resource: "things"}
	return []answer{
		{"409", apierrors.NewConflict(things, "x", errors.New("the object has been modified"))},
		{"429", apierrors.NewTooManyRequests("slow down", 1)},
		{"500", apierrors.NewInternalError(errors.New("no leader"))},
		{"504", apierrors.NewTimeoutError("the request did not complete in time", 1)},
		{"no answer", fmt.Errorf("calling the API server: %w", context.DeadlineExceeded)},
	}
}
