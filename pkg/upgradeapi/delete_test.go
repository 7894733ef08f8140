package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	testingclock "k8s.io/utils/clock/testing"
)

func TestContractDelete(t *testing.T) {
	d := newTestServer(t)
	t.Run("contract 63, 66, 67 and 71: background is the default, and answers at once", func(t *testing.T) {
		for i, body := range []string{"", "{}", " \n", `{"policy": "background"}`} {
			name := fmt.Sprintf("background-%d", i)
			d.create(name)
			if got := d.succeeds(http.MethodDelete, "/gum/v1/gr/"+name, body); got.body != plainSuccess(OperationDelete) {
				t.Errorf("got %s", got.body)
			}
			if now := d.gr(name); now == nil || now.DeletionTimestamp == nil {
				t.Errorf("%q: got %+v", body, now)
			}
			d.succeeds(http.MethodDelete, "/gum/v1/gr/"+name+"/", body) // repeated
			d.letGo(name)
			d.fails(http.MethodGet, "/gum/v1/gr/"+name, "", http.StatusNotFound, fmt.Sprintf("gcuresources.topsops.enflame.com %q not found", name))
		}
	})
	t.Run("contract 71: foreground answers after the gr is really gone", func(t *testing.T) {
		d.create("foreground")
		later := d.sendLater(t.Context(), http.MethodDelete, "/gum/v1/gr/foreground", `{"policy": "foreground"}`)
		d.goes("foreground")
		select {
		case early := <-later:
			t.Errorf("answered while it is there: %+v", early)
		default:
		}
		d.letGo("foreground")
		if got := d.after(later); got.body != plainSuccess(OperationDelete) || d.gr("foreground") != nil {
			t.Errorf("got %s", got.body)
		}
	})
	t.Run("contract 71: another policy is refused, nothing is deleted", func(t *testing.T) {
		d.create("kept")
		for _, body := range []string{`{"policy": "Foreground"}`, `{"policy": ""}`, `{"policy": "orphan"}`, `{"Policy": "foreground"}`, "foreground", `{"policy": true}`, "null", `{}{"policy": "background"}`} {
			d.fails(http.MethodDelete, "/gum/v1/gr/kept", body, http.StatusBadRequest, "polic")
		}
		if d.gr("kept").DeletionTimestamp != nil {
			t.Error("it is deleted")
		}
	})
	t.Run("contract 67: what is absent cannot be deleted", func(t *testing.T) {
		d.fails(http.MethodDelete, "/gum/v1/gr/absent", "", http.StatusNotFound, `gcuresources.topsops.enflame.com "absent" not found`)
	})
	t.Run("contract 79: a gr that is being deleted is not upgraded", func(t *testing.T) {
		d.create("going")
		d.succeeds(http.MethodDelete, "/gum/v1/gr/going", "")
		for _, mode := range []string{"inPlace", "recreate"} {
			d.fails(http.MethodPut, "/gum/v1/gr/going", fmt.Sprintf(`{"spec": {}, "mode": %q}`, mode), http.StatusConflict, "is being deleted")
		}
	})
}

func TestTheCallerOfAForegroundDeletionMayGoAway(t *testing.T) {
	d := newTestServer(t)
	d.create("left")
	ctx, hangUp := context.WithCancel(t.Context())
	later := d.sendLater(ctx, http.MethodDelete, "/gum/v1/gr/left", `{"policy": "foreground"}`)
	d.goes("left")
	hangUp()
	if got := <-later; !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %+v", got)
	}
	d.until(func() string { // the wait has ended and freed its place
		if n := len(d.api.deletions.waits); n > 0 {
			return fmt.Sprintf("%d wait", n)
		}
		return ""
	})
	if d.gr("left").DeletionTimestamp == nil {
		t.Error("the deletion was taken back")
	}
}

// The timeouts for slow senders do not apply to callers that wait.
func TestAForegroundDeletionMayTakeLongerThanARequest(t *testing.T) {
	d := newTestServer(t)
	const bound = 100 * time.Millisecond
	d.serve(&Server{API: New(d.api.Options), ReadTimeout: bound, WriteTimeout: bound, Log: d.api.Log})
	d.create("lasting")
	later := d.sendLater(t.Context(), http.MethodDelete, "/gum/v1/gr/lasting", `{"policy": "foreground"}`)
	d.goes("lasting")
	// The timeout disconnects a caller that connected later and sent half a body.
	slow, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	d.must(err)
	defer slow.Close()
	_, err = io.WriteString(slow, "DELETE /gum/v1/gr/slow HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
	d.must(err)
	_, err = io.ReadAll(slow)
	d.must(err)
	d.letGo("lasting")
	if got := d.after(later); got.body != plainSuccess(OperationDelete) {
		t.Errorf("got %s", got.body)
	}
}

func TestAStoppingManagerAnswersWaitingRequests(t *testing.T) {
	d := newTestServer(t)
	d.create("waiting")
	later := d.sendLater(t.Context(), http.MethodDelete, "/gum/v1/gr/waiting", `{"policy": "foreground"}`)
	d.goes("waiting")
	d.must(d.server.Ready(nil))
	d.must(d.stop())
	if d.server.Ready(nil) == nil {
		t.Error("it is ready, and serves nobody")
	}
	if got := d.after(later); got.status != http.StatusServiceUnavailable || !strings.Contains(got.Error, "the deletion of waiting continues") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	next := newTestServer(t) // a new manager process, and the caller repeats the request
	later = next.sendLater(t.Context(), http.MethodDelete, "/gum/v1/gr/waiting", `{"policy": "foreground"}`)
	next.letGo("waiting")
	if got := next.after(later); got.status != http.StatusOK && got.status != http.StatusNotFound {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestAForegroundDeletionDoesNotWaitForEver(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Now())
	d := newTestServer(t, func(o *Options) { o.Clock = clk })
	d.create("endless")
	later := d.sendLater(t.Context(), http.MethodDelete, "/gum/v1/gr/endless", `{"policy": "foreground"}`)
	d.goes("endless")
	var got sent
	d.until(func() string { // the wait may begin after a step
		clk.Step(defaultDeadline)
		select {
		case got = <-later:
			return ""
		default:
			return "no answer after the deadline"
		}
	})
	d.must(got.err)
	if got.answer.status != http.StatusGatewayTimeout || !strings.Contains(got.answer.Error, "endless is not gone after 10m0s, its deletion continues") {
		t.Errorf("got %d %s", got.answer.status, got.answer.body)
	}
	if d.gr("endless").DeletionTimestamp == nil {
		t.Error("the deletion was taken back")
	}
}

func TestForegroundDeletionsAreBounded(t *testing.T) {
	d := newTestServer(t)
	d.create("crowded")
	for range maxWaits {
		d.api.deletions.waits <- struct{}{}
	}
	got := d.fails(http.MethodDelete, "/gum/v1/gr/crowded", `{"policy": "foreground"}`, http.StatusTooManyRequests, "use policy background")
	if got.header.Get("Retry-After") == "" || d.gr("crowded").DeletionTimestamp != nil {
		t.Errorf("got %v", got.header)
	}
	d.succeeds(http.MethodDelete, "/gum/v1/gr/crowded", "")
}

// A webhook may deny with any code, also with that of an object that is gone.
func TestADenialIsNotTakenForAnObjectThatIsGone(t *testing.T) {
	denied := apierrors.NewNotFound(grResource, "gr")
	denied.ErrStatus.Message = `admission webhook "w" denied the request: still in use`
	s := &fakeCluster{keeps: func(bool) error { return denied }}
	w, _ := answerOf(s, httptest.NewRequest(http.MethodDelete, "/gum/v1/gr/gr", nil))
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "still in use") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
