// Package browser tests the page of kubectl gcu dashboard in Chromium, against an API server. There is no operator: the tests
// write what it would. It is a Go module of its own, so that chromedp is no dependency of the operator.
package browser
