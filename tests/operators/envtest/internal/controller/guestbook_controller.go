// Package controller has the reconciler of guestbooks and its envtest suite.
package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	webappv1 "sampan.test/guestbook/api/v1"
)

// GuestbookReconciler gives each guestbook a config map with its title, which the guestbook owns.
type GuestbookReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *GuestbookReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var book webappv1.Guestbook
	if err := r.Get(ctx, request.NamespacedName, &book); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !book.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: book.Name + "-page", Namespace: book.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"title": book.Spec.Title}
		return controllerutil.SetControllerReference(&book, page, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}
	changed := meta.SetStatusCondition(&book.Status.Conditions, metav1.Condition{
		Type: "Available", Status: metav1.ConditionTrue, Reason: "PageWritten", Message: "the page is written",
		ObservedGeneration: book.Generation,
	})
	if !changed {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, &book)
}

func (r *GuestbookReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&webappv1.Guestbook{}).
		Owns(&corev1.ConfigMap{}).
		Named("guestbook").
		Complete(r)
}
