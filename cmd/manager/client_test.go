package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestADeletedPodIsNotDecoded: the deletion is sent with its preconditions, and the pod in the answer is not read.
func TestADeletedPodIsNotDecoded(t *testing.T) {
	var path, method string
	var sent metav1.DeleteOptions
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, method = r.URL.Path, r.Method
		body, _ := io.ReadAll(r.Body)
		if _, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, &sent); err != nil {
			t.Errorf("decoding the options: %v", err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer)
		if answer == http.StatusOK {
			_, _ = io.WriteString(w, "not an object")
		}
	}))
	defer server.Close()
	c, err := newClient(&rest.Config{Host: server.URL}, client.Options{
		HTTPClient: server.Client(), Scheme: clientgoscheme.Scheme, Mapper: testrestmapper.TestOnlyStaticRESTMapper(clientgoscheme.Scheme),
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "pod"}}
	uid, version := types.UID("u"), "7"
	if err := c.Delete(t.Context(), pod, client.Preconditions{UID: &uid, ResourceVersion: &version}); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	if method != http.MethodDelete || path != "/api/v1/namespaces/bench/pods/pod" {
		t.Errorf("sent %s %s", method, path)
	}
	if p := sent.Preconditions; p == nil || p.UID == nil || *p.UID != uid || p.ResourceVersion == nil || *p.ResourceVersion != version {
		t.Errorf("preconditions sent: %v", p)
	}
	for status, is := range map[int]func(error) bool{http.StatusConflict: apierrors.IsConflict, http.StatusNotFound: apierrors.IsNotFound, http.StatusForbidden: apierrors.IsForbidden} {
		if answer = status; !is(c.Delete(t.Context(), pod)) {
			t.Errorf("the error of status %d is another one", status)
		}
	}
}
