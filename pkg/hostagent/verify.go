package hostagent

import "context"

// verify reads what the node shows. What it means is said by Judge.
func (e *Executor) verify(ctx context.Context, o Operation, r record) (Result, error) {
	facts, err := e.Facts(ctx, o.engine())
	if err != nil {
		return Result{}, err
	}
	r.Result.Facts = facts
	r.Result.Attempts++
	return e.end(r, Done, ReasonRead, "")
}

// Facts reads what the node shows now, without recording it: for a precheck,
// whether a restart of the engine would stop containers among it. Runtime is nil
// when no engine answers. An error means that the host root cannot be read, or
// that ctx has ended.
func (e *Executor) Facts(ctx context.Context, wanted Engine) (Facts, error) {
	host, err := readHostFacts(e.host.root)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{Host: &host}
	kind, err := e.host.detect(ctx, wanted)
	if err == nil {
		var status engineStatus
		if status, err = e.host.ask(ctx, kind); err == nil {
			instance, err := e.host.instanceOf(ctx, kind, e.services)
			if err != nil {
				host.Missing = append(host.Missing, "instance of "+string(kind)+": "+err.Error())
			}
			facts.Runtime = runtimeFacts(kind, instance, status)
		}
	}
	if err != nil {
		host.Missing = append(host.Missing, "container engine: "+err.Error())
	}
	if ctx.Err() != nil {
		return Facts{}, context.Cause(ctx)
	}
	return facts, nil
}
