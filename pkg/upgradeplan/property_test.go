package upgradeplan

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// needed reports, straight from the definition of Need, whether the node has the task.
func needed(n Node, target Target, action string, worst Disruption) bool {
	if len(n.Changed) == 0 || !target.OfNode && !slices.Contains(n.Deployed, target.Name) {
		return false
	}
	return slices.ContainsFunc(target.Needs, func(need Need) bool {
		causes := need.Changed
		switch {
		case len(causes) == 0 && target.OfNode:
			causes = n.Changed
		case len(causes) == 0:
			causes = []string{target.Name}
		}
		return slices.Contains(need.Actions, action) && worst.rank() >= need.Disruption.rank() &&
			slices.ContainsFunc(causes, func(c string) bool { return slices.Contains(n.Changed, c) })
	})
}

// Contract 97.
func TestANodeHasTheTasksThatItsTargetsNeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		var want []string
		for _, n := range d.nodes {
			worst := d.book.Disruption(n.Changed, false)
			for _, target := range d.book.Targets {
				for _, action := range target.actions() {
					if needed(n, target, action, worst) {
						want = append(want, Task{n.Name, target.Name, action}.String())
					}
				}
			}
		}
		tasks, err := Generate(d.book, d.nodes)
		if err != nil {
			t.Fatal(err)
		}
		got := names(tasks)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestEveryTaskIsInThePlanExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		m := d.plan(t)
		if err := m.Validate(); m != nil && err != nil {
			t.Fatal(err)
		}
		want, err := Generate(d.book, d.nodes)
		if err != nil {
			t.Fatal(err)
		}
		planned := names(tasksOf(m))
		generated := names(want)
		slices.Sort(planned)
		slices.Sort(generated)
		if diff := cmp.Diff(generated, planned); diff != "" {
			t.Fatal(diff)
		}
	})
}

// positions returns the time of each task: tasks with the same position run together.
func positions(m Mission) map[Task][2]int {
	at := map[Task][2]int{}
	for i, batch := range m {
		for _, job := range batch {
			for j, stage := range job {
				for _, task := range stage {
					at[task] = [2]int{i, j}
				}
			}
		}
	}
	return at
}

func TestOnEachHostTheOrderIsThatOfTheBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		steps := map[pair]int{}
		for i, s := range d.book.expandSteps() {
			for _, target := range s.Targets {
				steps[pair{target, s.Action}] = i
			}
		}
		at := positions(d.plan(t))
		for a, atA := range at {
			for b, atB := range at {
				stepA, stepB := steps[pair{a.Target, a.Action}], steps[pair{b.Target, b.Action}]
				if a.Host == b.Host && (stepA < stepB) != (slices.Compare(atA[:], atB[:]) < 0) {
					t.Fatalf("%s of step %d is at %v, %s of step %d at %v", a, stepA, atA, b, stepB, atB)
				}
			}
		}
	})
}

func TestAHostHasOneJobInABatchUnlessItIsGroupedByTask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		byTask := map[string]bool{}
		for _, a := range d.book.Actions {
			byTask[a.Name] = a.GroupBy == GroupByTask
		}
		for _, batch := range d.plan(t) {
			seen := map[string]bool{}
			for _, job := range batch {
				first := job[0][0]
				if seen[first.Host] && !byTask[first.Action] {
					t.Fatalf("%s has two jobs in %v", first.Host, outline(Mission{batch}))
				}
				seen[first.Host] = true
				for task := range job.All() {
					if byTask[task.Action] && (len(job) > 1 || len(job[0]) > 1) {
						t.Fatalf("%s is grouped by task, but in the job %v", task, job)
					}
				}
			}
		}
	})
}

// Contract 95 and 98.
func TestWavesRolesAndTheSizeOfABatchHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		m := d.plan(t)
		nodes := map[string]Node{}
		for _, n := range d.nodes {
			nodes[n.Name] = n
		}
		for i, batch := range m {
			hosts := map[string]bool{}
			for _, job := range batch {
				hosts[job.Host()] = true
			}
			if d.size > 0 && len(hosts) > d.size {
				t.Fatalf("batch %d has %d nodes, not %d", i+1, len(hosts), d.size)
			}
		}
		at := positions(m)
		for a, atA := range at {
			for b, atB := range at {
				if comesFirst(d.book.ControlPlane, nodes[a.Host], nodes[b.Host]) && atA[0] >= atB[0] {
					t.Fatalf("%s is in batch %d, %s in batch %d", a, atA[0]+1, b, atB[0]+1)
				}
			}
		}
	})
}

func comesFirst(place Place, a, b Node) bool {
	if a.Wave != b.Wave {
		return a.Wave < b.Wave
	}
	return place == First && a.ControlPlane && !b.ControlPlane || place == Last && !a.ControlPlane && b.ControlPlane
}

func TestACutIsASubsequenceOfThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawPlan(t).plan(t)
		keep := drawKept(t, m)
		cut := Cut(m, keep)
		if err := cut.Validate(); err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(tasksOf(m), func(task Task) bool { return !keep(task) })
		if diff := cmp.Diff(names(want), names(tasksOf(cut))); diff != "" {
			t.Fatal(diff)
		}
		// The relative order of tasks is kept.
		was, is := positions(m), positions(cut)
		for a := range is {
			for b := range is {
				before, after := was[a], was[b]
				x, y := is[a], is[b]
				sameJob := a.Host == b.Host && before[0] == after[0]
				if (before[0] < after[0]) != (x[0] < y[0]) || sameJob && (before[1] < after[1]) != (x[1] < y[1]) {
					t.Fatalf("%s and %s changed their order", a, b)
				}
			}
		}
	})
}

func TestThePlanOfFewerComponentsIsPartOfThePlanOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlan(t)
		d.size = 0
		m := d.plan(t)
		narrow := d
		narrow.nodes = slices.Clone(d.nodes)
		for i, n := range narrow.nodes {
			narrow.nodes[i] = Narrow(n, rapid.SliceOf(rapid.SampledFrom(append([]string{""}, n.Changed...))).Draw(t, n.Name))
		}
		part := narrow.plan(t)
		rest := tasksOf(m)
		for _, task := range tasksOf(part) {
			i := slices.Index(rest, task)
			if i < 0 {
				t.Fatalf("%s is not in the plan, or not after the tasks before it", task)
			}
			rest = rest[i+1:]
		}
	})
}

func TestAPlanIsReadBackFromItsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawPlan(t).plan(t)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var got Mission
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(names(tasksOf(m)), names(tasksOf(got))); diff != "" {
			t.Fatal(diff)
		}
		if len(m) > 0 {
			if diff := cmp.Diff(m, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// Running what Progress returns, with any outcomes, runs each task once and none before its
// stage.
func TestAJobThatIsRunByItsProgressRunsEachTaskOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, batch := range drawPlan(t).plan(t) {
			for _, job := range batch {
				var ran []Task
				done := map[Task]Outcome{}
				for {
					p := job.Progress(func(task Task) Outcome { return done[task] })
					if p.Complete() {
						break
					}
					ran = append(ran, p.Next...)
					for _, task := range p.Next {
						done[task] = rapid.SampledFrom([]Outcome{Done, Skipped}).Draw(t, "outcome")
					}
				}
				if diff := cmp.Diff(slices.Collect(job.All()), ran); diff != "" {
					t.Fatal(diff)
				}
			}
		}
	})
}

func TestThePrintedTaskCountsAreThoseOfThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawPlan(t).plan(t)
		printed := 0
		for _, b := range blocks(m, nil) {
			for _, g := range b.groups {
				tasks := 0
				for _, batch := range m {
					for _, job := range batch {
						if job.Host() == g.hosts[0] && shapeOf(job) == g.shape {
							tasks = len(slices.Collect(job.All()))
						}
					}
				}
				printed += tasks * len(g.hosts)
			}
		}
		if want := len(tasksOf(m)); printed != want {
			t.Fatalf("%d tasks are printed, the plan has %d", printed, want)
		}
	})
}
