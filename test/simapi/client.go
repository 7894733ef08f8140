package simapi

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client writes to the API server. Methods that it does not define are nil and stop the test.
type Client struct {
	client.WithWatch
	API *API
	// From is what it reads: a cache, or the true state.
	From func() *Cache
}

// Get reads an object.
func (c *Client) Get(_ context.Context, key types.NamespacedName, object client.Object, opts ...client.GetOption) error {
	return c.From().Get(key, object, opts...)
}

// List reads a list.
func (c *Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.From().List(list, opts)
}

// Create creates an object.
func (c *Client) Create(_ context.Context, object client.Object, opts ...client.CreateOption) error {
	return c.API.Validated((&client.CreateOptions{}).ApplyOptions(opts).FieldValidation, func() error { return c.API.Create(object) })
}

// Update replaces all but the status of an object.
func (c *Client) Update(_ context.Context, object client.Object, opts ...client.UpdateOption) error {
	return c.API.Update(object, Main, (&client.UpdateOptions{}).ApplyOptions(opts).FieldManager)
}

// Patch patches all but the status of an object.
func (c *Client) Patch(_ context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return c.API.Patch(object, patch.Type(), data, Main, (&client.PatchOptions{}).ApplyOptions(opts).FieldManager)
}

// Delete deletes an object, and a pod without a grace period at once.
func (c *Client) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if _, pod := object.(*corev1.Pod); pod && ptr.Deref(options.GracePeriodSeconds, 1) == 0 {
		c.API.Remove(KeyOf(object))
		return nil
	}
	_, err := c.API.Delete(KeyOf(object), options.AsDeleteOptions().Preconditions)
	return err
}

// Status is the status subresource.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource is the status, whatever its name: there is no other.
func (c *Client) SubResource(string) client.SubResourceClient { return &statusClient{c: c} }

type statusClient struct {
	client.SubResourceClient
	c *Client
}

// Update replaces the status.
func (s *statusClient) Update(_ context.Context, object client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.c.API.Validated((&client.SubResourceUpdateOptions{}).ApplyOptions(opts).FieldValidation, func() error { return s.c.API.Update(object, Status, "") })
}

// Patch patches the status.
func (s *statusClient) Patch(_ context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return s.c.API.Validated((&client.SubResourcePatchOptions{}).ApplyOptions(opts).FieldValidation, func() error {
		return s.c.API.Patch(object, patch.Type(), data, Status, "")
	})
}
