package hostagent

import "context"

// verify reads what the node shows. What it means is for the asker to say.
func (e *Executor) verify(ctx context.Context, o Operation, r record) (Result, error) {
	facts, err := e.Facts(ctx, o.engine())
	if err != nil {
		return Result{}, err
	}
	r.Result.Facts = facts
	r.Result.Attempts++
	return e.end(r, Done, ReasonRead, "")
}

// Facts reads what the node shows now, without recording it. What cannot be read
// is left out and explained in Host.Missing; Host is never nil. The error is that
// of ctx.
func (e *Executor) Facts(ctx context.Context, wanted Engine) (Facts, error) {
	host := readHostFacts(e.host.root)
	facts := Facts{Host: &host}
	note := func(what string, err error) {
		if err != nil {
			host.Missing = append(host.Missing, what+": "+err.Error())
		}
	}
	kind, status, err := e.running(ctx, wanted)
	note("container engine", err)
	if err == nil {
		instance, err := e.host.instanceOf(ctx, kind, e.services)
		note("instance of "+string(kind), err)
		facts.Runtime = runtimeFacts(kind, instance, status)
		free, err := freeDisk(e.host.root, status.imageStore)
		note("free disk", err)
		if err == nil {
			host.FreeDiskBytes = &free
		}
	}
	if ctx.Err() != nil {
		return Facts{}, context.Cause(ctx)
	}
	return facts, nil
}

// running asks the engine.
func (e *Executor) running(ctx context.Context, wanted Engine) (Engine, engineStatus, error) {
	kind, err := e.host.detect(ctx, wanted)
	if err != nil {
		return "", engineStatus{}, err
	}
	status, err := e.host.ask(ctx, kind)
	return kind, status, err
}
