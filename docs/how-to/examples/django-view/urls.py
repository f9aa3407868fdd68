from django.urls import path
from shop.views import pay

urlpatterns = [path("invoices/<int:pk>/pay", pay)]
