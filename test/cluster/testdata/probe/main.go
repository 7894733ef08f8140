// Command probe runs in a pod: it prints its identity at the API server, counts in a
// file as long as it runs, and fetches URLs for the test.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	go count("/out/count")
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		fmt.Println("I am", whoAmI())
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		url := r.URL.Query().Get("url")
		if url == "" {
			_, _ = fmt.Fprint(w, "hello from ", os.Getenv("HOSTNAME"))
			return
		}
		response, err := http.Get(url)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		_, _ = io.Copy(w, response.Body)
	})
	log.Fatal(http.ListenAndServe(":8080", nil))
}

func whoAmI() string {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	self, err := client.AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return self.Status.UserInfo.Username
}

func count(path string) {
	for n := 1; ; n++ {
		if err := os.WriteFile(path+".new", []byte(strconv.Itoa(n)), 0o644); err == nil {
			_ = os.Rename(path+".new", path)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
